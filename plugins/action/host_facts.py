# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action host_facts, and of the modules to which meta/runtime.yml gives it: see plugins/modules/ for their documentation."""

from __future__ import annotations

from ..plugin_utils.named_instances import NamedAction as ActionModule

__all__ = ["ActionModule"]
