#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

# The action plugin of the same name does the work.

DOCUMENTATION = r"""
module: ask_fleet
version_added: 1.0.0
short_description: Say how much more fits in the fleet, or whether it survives hosts that fail
description:
  - Part of the playbooks C(berth.kvm.capacity) and C(berth.kvm.survive). Placement decides, with all its filters. Nothing is
    changed.
options:
  question:
    description:
      - V(capacity), how many more instances of each flavor fit, were they the only ones that are created.
      - V(survive), whether the instances of any O(failures) hosts find a place on the others, which keep what they have.
    type: str
    choices: [capacity, survive]
    required: true
  kept_free:
    description: How many hosts stay free, those that could take most.
    type: raw
    default: 0
  failures:
    description: How many hosts fail at once, at most 3.
    type: raw
    default: 1
  away:
    description: Hosts that are away in any case, such as for a boot. Then O(failures) may be 0.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = r"""
- name: Say how much more fits
  berth.kvm.ask_fleet:
    question: capacity
"""

RETURN = r"""
answer:
  description: >-
    Of C(capacity) for each flavor C(count), how many fit on each of the C(hosts), and why no more (C(limited)). Of C(survive)
    C(survives), the hosts whose instances find no place (C(failing)), those C(instances), and whether that is C(proven).
  returned: success
  type: dict
  sample: {survives: true, failing: [], instances: [], proven: true}
"""
