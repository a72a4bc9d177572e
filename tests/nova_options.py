# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a nova.conf as options of placement, for the comparisons with Nova."""

from __future__ import annotations

from typing import Any

from ansible_collections.berth.kvm.plugins.module_utils.placement.options import OPTIONS


def from_nova(config: dict[str, Any] | None) -> dict[str, Any]:
    """Placement options of a nova.conf given as {group: {option: value}}, with Nova's own default for each option.

    Groups that other services read too, such as DEFAULT, compute and pci, give only the options that placement knows.
    """
    flat: dict[str, Any] = {"max_placement_results": 1000}
    for group, options in (config or {}).items():
        for name, value in options.items():
            known = "pci_" + name if group == "pci" else name
            if group == "metrics":
                flat.setdefault("metrics", {})[name] = value
            elif group in ("filter_scheduler", "scheduler") or known in OPTIONS:
                flat[known] = value
    return flat
