# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The room that an instance has on its host, over an engine: a shelve that has ended gives it back, and an unshelve takes it, in one
transaction, before its host hears of it, whose lock decides. Its owner, name, addresses and quota stay.

What a run could not tell the next word of the host does; what one that was killed has taken, the next unshelve takes over.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Dict, Mapping, Optional

from ...model import hints
from ...model.errors import BerthError
from ...model.shelves import KEY
from ..errors import ClaimConflict
from ..procedures.steps import Ask, Procedure
from . import hosts, keys
from .engine import Known
from .transactions import Draft, heard, of_each, transacted


@dataclasses.dataclass(frozen=True)
class RoomOnEngine:
    """``known``: what the engine knew when they were located, for an unshelve; a shelve takes no room."""

    known: Optional[Known] = None

    def begin(self, tasks: Mapping[str, Any]) -> Procedure[Dict[str, BerthError]]:
        return (yield from of_each(self._begin, tasks))

    def _begin(self, name: str, task: Any) -> Procedure[None]:
        if self.known and task["shelved"]:
            yield from transacted(functools.partial(_taken, name=name, task=task, known=self.known))

    def end(self, tasks: Mapping[str, Any]) -> Procedure[None]:
        """Give back the room of the instances which their hosts say to be shelved."""
        at = {task["uuid"]: task["hosts"][-1] for task in tasks.values() if task["hosts"]}
        scans = yield Ask("rescan", {host: {} for host in sorted(set(at.values()))})
        for host, scan in scans.items():
            for record in scan.get("instances") or ():
                if at.get(record["uuid"]) == host and KEY in record:
                    without = functools.partial(
                        hosts.change_room,
                        host_uuid=scan["host_uuid"],
                        uuid=record["uuid"],
                        generation=record["generation"],
                        is_taken=False,
                    )
                    yield from heard(without)


def _taken(draft: Draft, name: str, task: Mapping[str, Any], known: Known) -> Procedure[None]:
    key = keys.instance(task["uuid"])
    yield from draft.read(key)
    entry, found = draft.get(key), draft.found[key]
    if not (found and entry["owner"] and found.revision == known.versions.get(task["uuid"])):
        raise ClaimConflict("another run has begun or ended with %s" % name, hint=hints.another_run())
    epoch, writes = task["after"]
    yield from hosts.change_room(draft, entry["owner"], task["uuid"], [epoch, writes + 1], is_taken=True)
