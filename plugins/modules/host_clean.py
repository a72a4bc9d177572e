#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_clean
version_added: 1.0.0
short_description: Remove what berth put on a KVM host that leaves the fleet
description:
  - Refuses with C(HostNotEmpty), and changes nothing, while the host holds an instance, a volume or files of one.
  - First removes the settings, so that nothing can be claimed on the host any more. Then removes the certificates that
    O(authorities) signed, the boot gate, the state directory and the kept code of modules. Closes libvirt's systemd
    port before it removes the certificates.
  - Leaves packages, libvirt, storage pools with all their files, guests of others, certificates of others, and a hook that was edited.
  - M(berth.kvm.remove_host) calls it.
options:
  authorities:
    description: The certificates of our authorities in PEM, by use (C(libvirt), C(qemu)).
    type: dict
    default: {}
extends_documentation_fragment:
  - berth.kvm.host
attributes:
  platform:
    details: Linux with libvirt, QEMU and openssl.
"""

EXAMPLES = r"""
- name: Clean a host that leaves the fleet
  berth.kvm.host_clean:
"""

RETURN = r"""
removed:
  description: The files and directories that were removed.
  returned: success
  type: list
  elements: str
  sample: [/etc/berth/host.json, /var/lib/berth]
left:
  description: What was found and left, each with the reason.
  returned: success
  type: list
  elements: str
  sample: ["/etc/libvirt/hooks/qemu.d/berth: it is not as berth wrote it"]
restart:
  description: The services that have to be restarted before this module is run again and removes the rest. Empty when it is done.
  returned: success
  type: list
  elements: str
  sample: [libvirtd]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute import kept_code
from ..module_utils.compute.errors import failing
from ..module_utils.compute.host import leaving
from ..module_utils.compute.host.host import Host


def main():
    module = AnsibleModule(argument_spec={"authorities": {"type": "dict", "default": {}}}, supports_check_mode=True)
    with failing(module):
        host = Host.here("host_clean")
        done = leaving.clean(host, module.params["authorities"], dry=module.check_mode)
    # each run on this host keeps the code again, so that is no change
    module.exit_json(changed=done["removed"] not in ([], [kept_code.DIRECTORY]), **done)


if __name__ == "__main__":
    main()
