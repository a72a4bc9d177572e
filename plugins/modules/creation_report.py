#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

# The work is done by the action plugin of the same name.

DOCUMENTATION = r"""
module: creation_report
short_description: "Internal: show where each instance is and why"
description:
  - Part of playbook C(berth.kvm.create). Gives one line per instance, and for what failed the table of attempts.

extends_documentation_fragment:
  - berth.kvm.controller
author:
  - The berth.kvm authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Show what was done
  berth.kvm.creation_report:
"""

RETURN = r"""
report:
  description: The lines.
  returned: success
  type: list
  elements: str
  sample: ["web-1  active  kvm2  weight 2.0, first of 2 hosts"]
"""
