# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: doctor
version_added: 1.0.0
short_description: "Internal: find what is wrong in the fleet"
description:
  - Part of the playbook C(berth.kvm.doctor). Compares what the hosts report about themselves, each other and their instances with the
    inventory.
options:
  asked:
    description: When the hosts were asked and had answered, in seconds since 1970.
    type: list
    elements: float
    required: true
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
