# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: check_variables
version_added: 1.0.0
short_description: "Internal: refuse unknown variables of the prefix berth_"
description:
  - Part of the playbooks. Fails if a host of the inventory, the play or C(-e) sets a variable with the prefix C(berth_)
    that the collection does not know. The error suggests what was probably meant.
  - A list C(berth_own_variables) names variables of your own with that prefix.
  - With O(hosts) it also fails if there are no such hosts or C(--limit) selects none of them, and if one of them needs
    certificates for live migration but the controller has no C(cryptography) 42 or later.
  - With O(members) it also fails if that list is empty.
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
options:
  members:
    description: The hosts of the group C(berth_registry_hosts), for the playbooks that need some.
    type: list
    elements: str
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
