#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: move_instances
version_added: 1.0.0
short_description: "Internal: resize and migrate instances, confirm and revert that"
description:
  - Part of the roles that move instances. Without a plan of this run it reads the KVM hosts and plans for the instances of
    the play. The first process does that for all that have come, then each moves its own instance.
  - What an earlier run left of another move is finished first. The hosts are read again after that, and also if the move
    turns out to have ended before this run took it up.
  - If a leg of the move fails before the source has let go, the move is given up, and the next candidate is tried.
  - The last of those that were planned together shows the closing table, and ends the run.
options:
  operation:
    description: What is done with the instance.
    type: str
    required: true
    choices: [resize, cold_migrate, live_migrate, migrate, confirm, confirm_due, revert]
  only_prepare:
    description: Claim room on the destination, and touch no guest.
    type: bool
    default: false
  may_fail:
    description:
      - Whether the task ends well also if the move failed. C(error) says why.
    type: bool
    default: false
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = r"""
- name: Confirm the resize or migration
  berth.kvm.move_instances:
    operation: confirm
  delegate_to: localhost
  become: true
"""

RETURN = r"""
outcome:
  description: What became of the instance.
  returned: for an instance
  type: dict
  sample: {instance: web-1, state: resized, host: kvm2}
failure:
  description: Why the move failed.
  returned: success
  type: str
  sample: "ClaimFailed: it is full"
error:
  description: Why it failed, with C(code) and C(message).
  returned: when it failed
  type: dict
  sample: {code: ClaimFailed, message: it is full}
outcomes:
  description: What became of each instance that was planned together with this one.
  returned: by the last task of these instances
  type: list
  elements: dict
  sample: [{instance: web-1, state: resized, host: kvm2}]
move:
  description: The record of the host that answered last.
  returned: when the move came to its end
  type: dict
  sample: {role: OWN, phase: resized}
attempts:
  description: The hosts that were tried without success.
  returned: when anything was to be done
  type: list
  elements: dict
  sample: [{attempt: 1, host: kvm2, code: ClaimFailed, cause: it is full}]
destination:
  description: The host where the instance was to go.
  returned: when anything was to be done
  type: str
  sample: kvm2
away:
  description: For how many seconds the guest was stopped.
  returned: when it was
  type: float
  sample: 3.2
legs:
  description: The legs that have ended.
  returned: success
  type: list
  elements: dict
  sample: [{label: Claim room on the destination, changed: true, took: {claim: 0.1}, seconds: 0.4}]
said:
  description: Which states the instance had in between, with the time of the controller.
  returned: success
  type: list
  elements: dict
  sample: [{at: "2026-01-01T12:00:00Z", instance: web-1, host: kvm2, phase: resizing}]
"""
