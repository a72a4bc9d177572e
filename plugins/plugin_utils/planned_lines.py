# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people see of a plan."""

from __future__ import annotations

from typing import Any, Collection, Dict, List

from ..module_utils.placement.text import table

COLUMNS = ("WAVE", "INSTANCE", "FROM", "TO", "HOW", "MEMORY", "DISK", "TAKES", "WHY")


def lines(document: Dict[str, Any], told: Collection[str] = ()) -> List[str]:
    """``told``: names of instances of which the run has said already why they stay."""
    moves = [move for wave in document["waves"] for move in wave]
    total = sum(move["memory_mb"] + 1024 * move["disk_gb"] for move in moves)
    said = [
        "plan for %s: %s; %s"
        % (document["goal"]["name"], _counted(len(moves), len(document["waves"]), total), document["proof"])
    ]
    if moves:
        said += table(COLUMNS, [_row(at, move) for at, wave in enumerate(document["waves"], 1) for move in wave])
        said += ["", *table(("HOST", "BEFORE -> AFTER"), sorted(document["hosts"].items()))]
    return said + [
        "%s stays where it is: %s" % stays for stays in sorted(document["stays"].items()) if stays[0] not in told
    ]


def _counted(moves: int, waves: int, mib: int) -> str:
    if not moves:
        return "no move"
    counted = (moves, "s" * (moves > 1), waves, "s" * (waves > 1), -(-mib // 1024))
    return "%d move%s in %d wave%s, at most %d GiB to copy" % counted


def _row(at: int, move: Dict[str, Any]) -> tuple:
    takes = "-" if move.get("seconds") is None else "%d s" % move["seconds"]
    sizes = ("%d MiB" % move["memory_mb"], "%d GiB" % move["disk_gb"], takes)
    return (str(at), move["instance"], move["from"], move["to"], move["how"], *sizes, move["why"])
