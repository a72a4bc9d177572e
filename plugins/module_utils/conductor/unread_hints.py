# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scheduler hints that no enabled filter reads: as in Nova they change nothing, but whoever gave them is told.

A hint of any other name may be one that a filter of the user's own reads.
"""

from __future__ import annotations

from typing import Any, Collection, List, Mapping, Optional, Sequence

from ..model import input_hints
from ..model.unknown_names import meant, nearest

READ_BY = {
    "build_near_host_ip": "SimpleCIDRAffinityFilter",
    "cidr": "SimpleCIDRAffinityFilter",
    "different_host": "DifferentHostFilter",
    "query": "QueryFilter",
    "same_host": "SameHostFilter",
}
JSON_FILTER = "JsonFilter"  # it reads the same hint in Nova's form, [">=", "$free_ram_mb", 1024]


def unread(name: str, hints: Mapping[str, Any], filters: Sequence[str]) -> List[str]:
    """A line for each hint of the instance ``name`` that does nothing. ``filters``: the names of those that are enabled."""
    enabled = {filter_name.rpartition(".")[2] for filter_name in map(str, filters)}
    every_one_is_known = not any(filter_name.count(".") for filter_name in map(str, filters))
    lines = []
    for hint in hints:
        reader, near = _reader(hint, hints[hint], enabled), nearest(hint, READ_BY)
        begin = "%s: berth_hints.%s does nothing: " % (name, hint)
        if reader and reader not in enabled:
            lines.append("%s%s reads it, which is not enabled. %s" % (begin, reader, input_hints.enable_filter(reader)))
        elif not reader and near and every_one_is_known:
            lines.append("%sno filter reads it. %s" % (begin, meant(near)))
    return lines


def _reader(hint: str, values: Any, enabled: Collection[str]) -> Optional[str]:
    in_novas_form = hint == "query" and (JSON_FILTER in enabled or str(values[0]).lstrip().startswith("["))
    return JSON_FILTER if in_novas_form else READ_BY.get(hint)
