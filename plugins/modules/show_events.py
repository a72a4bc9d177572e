# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: show_events
version_added: 1.0.0
short_description: Show what was done in the fleet since a time
description:
  - Shows what was done to instances since a time, in the order of time, with who did it in which run, also of instances that
    were deleted in the last 30 days. Nothing is changed.
  - The histories are those that the hosts keep. A history has at most 100 events of an instance, and its times are those of the
    clock of the host where each event was.
options:
  since:
    description: C(90m), C(2h) or C(3d) for so long ago, C(today), C(yesterday), or a day or time in UTC such as C(2026-11-01) or
      C(2026-11-01T08:00).
    type: str
    default: 24h
  instances:
    description: The names of the instances to be shown. Default, all.
    type: list
    elements: str
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = r"""
- name: Show what was done since yesterday
  berth.kvm.show_events:
    since: yesterday
"""

RETURN = r"""
events:
  description: What was done, the oldest first.
  returned: success
  type: list
  elements: dict
  sample: [{at: "2026-11-22T00:00:00Z", instance: web-1, uuid: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a, event: stop, host: kvm1,
            by: ann@ctl, run: r-1, result: stopped}]
ansible_facts:
  description: What the run reports as failed, as a fact of localhost.
  returned: success
  type: dict
  contains:
    berth_results:
      description: The errors of the instances as C(failed), and the hosts that were C(left_out) with the reason.
      type: dict
      sample: {failed: {}, left_out: {}}
"""
