# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ask_fleet
version_added: 1.0.0
short_description: Ask placement about the whole fleet
description:
  - Part of the playbooks C(berth.kvm.capacity), C(berth.kvm.survive), C(berth.kvm.movability), C(berth.kvm.what_if) and
    C(berth.kvm.assert). Placement decides, with all its filters. Nothing is changed.
options:
  question:
    description:
      - V(capacity), how many more instances of each flavor fit, were they the only ones that are created.
      - V(survive), whether the instances of any O(failures) hosts find a place on the others, which keep what they have.
      - V(movability), which instance may go to which host now, how, and why not to the others.
      - V(what_if), the answers of V(capacity) and V(survive) if hosts were O(gone), or more O(like) others were there.
      - V(assert), whether the assertions of a file hold. It fails if one does not.
    type: str
    choices: [assert, capacity, movability, survive, what_if]
    required: true
  about:
    description: The instances of which V(movability) tells. By default all; the other questions are about all in any case.
    type: list
    elements: str
  gone:
    description: Hosts without which V(what_if) answers. Their instances go to the others first. A list, or names with commas between them.
    type: raw
    default: []
  like:
    description: Hosts like each of which V(what_if) counts one more. A list, or names with commas between them.
    type: raw
    default: []
  assertions:
    description: The file with the assertions.
    type: path
  junit:
    description: A file to which V(assert) writes its results as JUnit XML.
    type: path
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
    C(survives), the hosts whose instances find no place (C(failing)), those C(instances), and whether that is C(proven). Of
    C(movability) for each instance its C(host), C(how) it moves, C(to) which hosts, and the C(reasons) with the hosts of which
    each is so. Of C(what_if) the C(capacity) of each flavor and whether it survives, today and then, the instances
    C(without_place), and the C(plan) that would empty the hosts that go. Of C(assert) a list of C(name), C(holds) and C(why) not.
  returned: success
  type: raw
  sample: {survives: true, failing: [], instances: [], proven: true}
"""
