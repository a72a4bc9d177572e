# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_system
version_added: 1.0.0
short_description: Detect the operating system of a KVM host
description:
  - Returns the family of the operating system and its service manager. Role P(berth.kvm.kvm_host#role) needs nothing
    else before it installs packages. Needs no libvirt.
extends_documentation_fragment:
  - berth.kvm.host
attributes:
  platform:
    details: Linux.
"""

EXAMPLES = r"""
- name: See what the host runs
  berth.kvm.host_system:
  register: system
"""

RETURN = r"""
os_family:
  description: V(Debian), V(RedHat), V(Suse) or V(Other).
  returned: success
  type: str
  sample: Debian
service_manager:
  description: V(systemd) or V(other).
  returned: success
  type: str
  sample: systemd
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute.host import system


def main():
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    module.exit_json(changed=False, os_family=system.os_family(), service_manager=system.service_manager())


if __name__ == "__main__":
    main()
