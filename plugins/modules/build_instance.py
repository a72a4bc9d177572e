#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

# The action plugin of the same name does the work.

DOCUMENTATION = r"""
module: build_instance
version_added: 0.1.0
short_description: "Internal: build an instance on the host that claimed room for it"
description:
  - Runs module M(berth.kvm.instance) on the host that the task is delegated to, with the seed made from the variables of the
    instance's inventory host. The seed may hold secrets and is in no task argument and in no fact.
  - A failure or a silent host fails the task, unless O(may_fail).

options:
  spec:
    description: The request spec of the instance.
    type: dict
    required: true
  token:
    description: The token of the claim. Absent for an instance that the host holds already.
    type: str
  take_over:
    description: The uuid of a lost host whose disks the instance gets, instead of new ones.
    type: str
    version_added: 0.2.0
  timeout:
    description: How many seconds the host may take.
    type: int
    default: 600
  may_fail:
    description:
      - Whether the task ends well also if nothing was built. The playbook then looks at C(error) and C(reason), as with
        M(berth.kvm.ask_hosts), and may try another host.
    type: bool
    default: false
    version_added: 0.2.0
extends_documentation_fragment:
  - berth.kvm.controller
author:
  - The berth.kvm authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Build the instance
  berth.kvm.build_instance:
    spec: "{{ create_spec }}"
    token: "{{ create_token }}"
  delegate_to: "{{ create_host }}"
"""

RETURN = r"""
instance:
  description: The instance as the host reports it.
  returned: success
  type: dict
  sample: {uuid: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a, vm_state: active}
reason:
  description: Why the host gave no answer.
  returned: when the host could not be reached
  type: str
error:
  description: The module's typed error.
  returned: when the module failed
  type: dict
"""
