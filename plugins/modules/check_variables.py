# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# The action plugin of the same name does the work.

from __future__ import annotations

DOCUMENTATION = r"""
module: check_variables
version_added: 0.2.0
short_description: "Internal: refuse unknown variables of the prefix berth_"
description:
  - Part of the playbooks. Fails where a host of the inventory, C(-e) or the play has a variable whose name begins with
    C(berth_) and that the collection does not know, with what was probably meant.
  - A list C(berth_own_variables) names variables of your own with that prefix.
  - With O(hosts) it fails, too, where there are none, or C(--limit) selects none of them, and if one of them is to have
    certificates for live migration and the controller has no C(cryptography), or one older than 42.
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
author:
  - The berth.kvm authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Check the variables
  berth.kvm.check_variables:
  run_once: true
  delegate_to: localhost
"""

RETURN = r""" # """
