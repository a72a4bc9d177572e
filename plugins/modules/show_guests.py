# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: show_guests
version_added: 1.0.0
short_description: "Internal: show the guests that are no instances"
description:
  - Part of the playbook C(berth.kvm.adopt). Shows the guests of the KVM hosts that are no instances, and of each what is in
    the way of adopting it.
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
