#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: outage_unit
version_added: 1.0.0
short_description: "Internal: have a KVM host start its guests after a boot as the registry says"
description:
  - Installs a unit of systemd that asks the registry once after each boot which instances the host still owns, and starts those of
    them that should run, without a controller. It may only read there.
  - Role P(berth.kvm.kvm_host#role) calls it where the fleet has a registry.
options:
  registry:
    description: The members of the registry, as in C(berth_registry).
    type: str
    required: true
  directory:
    description: The directory on the controller with the authorities.
    type: path
    required: true
extends_documentation_fragment:
  - berth.kvm.host
"""

EXAMPLES = r"""
- name: Have the host start its guests after a boot
  berth.kvm.outage_unit:
    registry: etcd://kvm1,kvm2,kvm3
    directory: ~/.berth/ca
"""

RETURN = r"""
files:
  description: The files that were changed, in check mode those that would be.
  returned: success
  type: list
  elements: str
  sample: [/etc/berth/registry.json]
lacks_code:
  description: Whether the host lacks the code that the unit runs. Without that nothing is changed.
  returned: success
  type: bool
  sample: false
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute.errors import failing
from ..module_utils.compute.host.outage_unit import CODE, OutageUnit

# The action makes these of the options.
ARGUMENTS = {
    "settings": {"type": "dict", "required": True, "no_log": True},
    "certificate": {"type": "str", "required": True, "no_log": True},
    "digest": {"type": "str", "required": True},
    "code": {"type": "path"},
}


def act(given, unit):
    code = None
    if given["code"]:
        with open(given["code"], "rb") as file:
            code = file.read()
    lacks = code is None and unit.lacks_code(given["digest"])
    if unit.dry or not lacks:
        unit.prepare(given["settings"], given["certificate"], code)
    files = unit.changed + [CODE] * (unit.dry and lacks)
    return {"changed": bool(files), "files": files, "lacks_code": lacks}


def main():
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    with failing(module):
        result = act(module.params, OutageUnit(module.check_mode))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
