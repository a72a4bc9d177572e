#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

# The action plugin of the same name does the work.

DOCUMENTATION = r"""
module: commit_move
version_added: 0.2.0
short_description: "Internal: decide whether the claim of a move stands"
description:
  - Part of role C(move), after it has claimed room. Counts the quota of the project again for a resize, and checks the
    server group across all hosts, from answers that are newer than the claim.
  - It fails if the claim does not stand. The role then abandons the move, and the guest is left as it was.

options:
  move:
    description: The plan of the move as M(berth.kvm.plan_moves) made it.
    type: dict
    required: true
  scans:
    description: What the hosts answered, RV(berth.kvm.ask_hosts#module:answers) of module M(berth.kvm.rescan).
    type: dict
    required: true
  host:
    description: The inventory name of the host with the claim.
    type: str
    required: true
extends_documentation_fragment:
  - berth.kvm.controller
author:
  - The berth.kvm authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Go on with the claim, or fail
  berth.kvm.commit_move:
    move: "{{ move_plan }}"
    host: kvm2
    scans: "{{ move_answer.answers }}"
  delegate_to: localhost
"""

RETURN = r"""#"""
