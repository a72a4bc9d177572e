# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: select_instances
version_added: 1.0.0
short_description: "Internal: find the instances that a query selects"
description:
  - Part of the playbooks. Asks all hosts for their instances, and evaluates the query C(berth_where) over each.
options:
  selected:
    description: Whether only O(instances) are meant. Otherwise also instances that hosts have and that are in no inventory.
    type: bool
    default: true
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.instances
  - berth.kvm.controller.hosts
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
