#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

# The action plugin of the same name does the work.

DOCUMENTATION = r"""
module: show_guests
version_added: 1.0.0
short_description: "Internal: show the guests that are no instances"
description:
  - Part of the playbook C(berth.kvm.adopt). Shows the guests of the KVM hosts that are no instances, and of each what is in
    the way of adopting it.
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = r"""
- name: Show the guests that are no instances
  berth.kvm.show_guests:
"""

RETURN = r"""
guests:
  description:
    - The guests with their C(host), as module C(host_facts) returns them as C(domains). One with nothing C(in_the_way) can be adopted.
  returned: always
  type: list
  elements: dict
  sample:
    - {host: kvm1, uuid: 5f0c1f7d-9d0b-4a1c-8d7f-1e2a0b7f9a52, name: web1, state: running, vcpus: 2, memory_mb: 2048, disks: [],
       in_the_way: []}
verdicts:
  description: Why hosts were left out. The key is a host's inventory name.
  returned: always
  type: dict
  sample: {}
"""
