#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

# The work is done by the action plugin of the same name.

DOCUMENTATION = r"""
module: name_instances
short_description: "Internal: find the UUIDs of the selected instances"
description:
  - Part of the playbooks, which ask the hosts by these UUIDs what they remember of the instances.

options:
  most:
    description:
      - Return no UUIDs where there are more instances than this, because each host would answer about each of them. Only for
        a playbook that asks again before it builds anything, as C(create) does. Without it there is no limit.
    type: int
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.instances
author:
  - The berth.kvm authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Name the instances
  berth.kvm.name_instances:
    instances: [web-1]
"""

RETURN = r"""
ansible_facts:
  description: The UUIDs, as a fact of localhost.
  returned: success
  type: dict
  contains:
    berth_about:
      description: The UUIDs.
      type: list
      elements: str
      sample: [0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a]
"""
