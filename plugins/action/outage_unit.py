# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action outage_unit: see plugins/modules/outage_unit.py for its documentation."""

from __future__ import annotations

from ..plugin_utils.host_reply import HostAction as ActionModule

__all__ = ["ActionModule"]
