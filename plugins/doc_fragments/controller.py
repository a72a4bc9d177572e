# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What holds for every action that works in the controller."""

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    support: full
    description: Can run in check mode without changing anything.
  diff_mode:
    support: none
    description: Returns what has changed, or would in check mode.
  action:
    support: full
    description: Has an action plugin that does the work on the controller.
requirements:
  - ansible-core >= 2.19
"""
