# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which backups a retention keeps, or a person: the newest so many, those of the last so many days, and all on which they stand."""

from __future__ import annotations

import datetime
from typing import Collection, Dict, Iterable, List, Mapping, Optional, Sequence, Set

from .backups import TIME, Backup


def removable(backups: Sequence[Backup], keep: Optional[int], keep_days: Optional[int], now: str) -> List[str]:
    """The ids of those that no wish keeps and on which none that stays stands, the newest first, so that what is left after a
    cut is whole. The newest ``keep`` stay, and those of the last ``keep_days``; without both, all. What one of them
    stands on may be there and not describe itself: then all older ones stay. ``now``: an id."""
    known = {backup.id: backup for backup in backups}
    newest = sorted(known, reverse=True)
    if keep is None and keep_days is None:
        return []
    kept = newest[: max(keep or 0, 1)]
    if keep_days is not None:
        since = datetime.datetime.strptime(now, TIME) - datetime.timedelta(days=keep_days)
        kept += [each for each in newest if each >= since.strftime(TIME)]
    stays = _with_below(known, kept)
    return [each for each in newest if each not in stays]


def needed(backups: Sequence[Backup], going: Collection[str]) -> Dict[str, List[str]]:
    """{id of ``going``: the others that stand on it}."""
    known = {backup.id: backup for backup in backups}
    found: Dict[str, List[str]] = {}
    for each in sorted(set(known) - set(going)):
        for below in _with_below(known, [each]) & set(going):
            found.setdefault(below, []).append(each)
    return found


def _with_below(known: Mapping[str, Backup], kept: Iterable[str]) -> Set[str]:
    stays = set(kept)
    for each in list(stays):
        while known[each].previous in known:
            each = str(known[each].previous)
            stays.add(each)
        lost = known[each].previous or ""  # it may be there
        stays.update([lost, *(older for older in known if older < lost)])
    return stays
