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
  - Part of role C(move). Finds the first leg of a move, or what follows a leg that failed or that asked all hosts. The
    fact C(berth_walk) of the instance then says on which host it runs, for M(berth.kvm.run_leg).
  - If a leg failed, the next legs abandon the move. If the guest was not touched yet, the move then begins again with
    the next candidate.
  - If the move had ended before this run took it up, the role reads the hosts again and plans the move again, once.

options:
  move:
    description: The plan of the move as M(berth.kvm.plan_moves) made it.
    type: dict
    required: true
  at:
    description: How far the move has come, the fact C(berth_walk). Without it, or with that of another plan, the move
      is begun.
    type: dict
    default: {}
  answer:
    description: The registered result of the last leg, where that is not known yet.
    type: dict
    default: {}
  only_prepare:
    description: Only claim room, and stop before the leg that touches the guest.
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
- name: Find the first leg
  berth.kvm.walk_move:
    move: "{{ move_plan }}"
  delegate_to: localhost
"""

RETURN = r"""
ansible_facts:
  description: The fact C(berth_walk), how far the move has come and which leg is next.
  returned: success
  type: dict
  sample: {berth_walk: {labels: [Claim room on the destination], tasks: leg.yml, host: kvm2}}
"""
