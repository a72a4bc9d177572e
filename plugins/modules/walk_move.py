#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

# The action plugin of the same name does the work.

DOCUMENTATION = r"""
module: walk_move
version_added: 0.2.0
short_description: "Internal: find the next leg of a move"
description:
  - Part of role C(move). Takes the answer of the leg that was run last and says which one is next, on which host and
    with which arguments for M(berth.kvm.migration).
  - If a leg failed, the next legs abandon the move. If the guest was not touched yet, the move then begins again with
    the next candidate.

options:
  move:
    description: The plan of the move as M(berth.kvm.plan_moves) made it.
    type: dict
    required: true
  walk:
    description: How far the move has come, RV(walk) of the task before. Without it, or with that of another plan, the
      move is begun.
    type: dict
    default: {}
  answer:
    description: The registered result of the last leg.
    type: dict
    default: {}
  only_prepare:
    description: Only claim room. The leg that would touch the guest is not given out.
    type: bool
    default: false
  settings:
    description: Arguments of M(berth.kvm.migration) that people may set. A leg gets those that it needs. A value that
      no host could use, such as a negative time, is refused before the first leg.
    type: dict
    default: {}
extends_documentation_fragment:
  - berth.kvm.controller
author:
  - The berth.kvm authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Find the next leg
  berth.kvm.walk_move:
    move: "{{ move_plan }}"
  delegate_to: localhost
  register: move_walk
"""

RETURN = r"""
walk:
  description: How far the move has come.
  returned: success
  type: dict
  sample: {sequence: resize, at: 1}
labels:
  description: What the next leg does, in words. Empty where there is none.
  returned: success
  type: list
  elements: str
  sample: [Claim room on the destination]
tasks:
  description: The task file of role C(move) that runs it.
  returned: success
  type: str
  sample: leg.yml
host:
  description: The inventory name of the host that it runs on.
  returned: success
  type: str
  sample: kvm2
leg:
  description: The arguments for M(berth.kvm.migration), without the key.
  returned: success
  type: dict
  sample: {steps: [claim], token: {op: 1f0c2a9e, attempt: 1}}
needs_key:
  description: Whether it needs the key of the transfer.
  returned: success
  type: bool
  sample: false
failure:
  description: Why the move failed, when nothing more is to be done.
  returned: success
  type: str
  sample: null
destination:
  description: The host of the candidate that the move ended with, when nothing more is to be done.
  returned: success
  type: str
  sample: kvm3
attempts:
  description: The hosts that were tried in vain, when nothing more is to be done.
  returned: success
  type: list
  elements: dict
  sample: [{attempt: 1, host: kvm2, code: ClaimFailed, cause: there is no room}]
away:
  description: For how many seconds the guest was away, if the move has ended and this run saw both the stop and the
    start of the guest.
  returned: success
  type: float
  sample: 14.2
  version_added: 0.2.0
move:
  description: What the last leg reported about the record, when the move has ended.
  returned: success
  type: dict
  sample: {role: OWN, phase: resized}
says:
  description: What a person has to do next.
  returned: success
  type: str
  sample: null
"""
