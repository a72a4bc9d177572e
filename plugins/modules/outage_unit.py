#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: outage_unit
version_added: 1.0.0
short_description: "Internal: write the unit with which a KVM host starts its guests after a boot"
description:
  - Writes the unit of systemd, its code and what it reads the registry with.
  - M(berth.kvm.prepare_outage_unit) calls it.
options:
  settings:
    description: The members of the registry, the user and its password, and their authority.
    type: dict
    required: true
  certificate:
    description: The certificate of the host and its key, in PEM.
    type: str
    required: true
  digest:
    description: The SHA-256 of the code that the unit runs.
    type: str
    required: true
  code:
    description: The file with that code on the host. Without it a host that has the code keeps it.
    type: path
extends_documentation_fragment:
  - berth.kvm.host
"""

EXAMPLES = "\n[]\n"

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
