# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# The action plugin of the same name does the work.

from __future__ import annotations

DOCUMENTATION = r"""
module: show_results
version_added: 1.0.0
short_description: "Internal: show the result of each instance"
description:
  - Part of the playbooks. Shows the table that ends a run, with the errors and the hosts that were left out below it.
options:
  operation:
    description: What was to be done, such as C(start), C(delete) or C(resize).
    type: str
    required: true
extends_documentation_fragment:
  - berth.kvm.controller
"""

EXAMPLES = r"""
- name: Show the results
  berth.kvm.show_results:
    operation: start
"""

RETURN = r"""
outcomes:
  description: A line of the table for each instance.
  returned: success
  type: list
  elements: dict
  sample: [{instance: web-1, state: started, host: kvm2, flavor: small, address: 192.0.2.11, why: "", error: ""}]
ansible_facts:
  description: What the run reports as failed, as a fact of localhost.
  returned: success
  type: dict
  contains:
    berth_results:
      description:
        - The errors of the instances as C(failed), the hosts that were C(left_out) with the reason, and in check mode the diffs of the
          instances that C(would_change) because they would be moved.
      type: dict
      sample: {failed: {}, left_out: {}, would_change: {}}
"""
