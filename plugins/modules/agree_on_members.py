# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: agree_on_members
version_added: 1.0.0
short_description: "Internal: tell all KVM hosts which hosts belong to the fleet"
description:
  - Part of the playbook C(berth.kvm.prepare_hosts). Each prepared host that answers belongs to the fleet from then on, and all that
    answer remember it. A new instance needs the answers of more than half of these hosts.
  - If no more than half of the hosts that belonged to it answer, nothing is changed.
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
