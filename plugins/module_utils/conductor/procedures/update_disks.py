# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An update of disks: the new volumes and what grows are claimed, all hosts are read again, so that of two runs at least one
sees the other, then they are made; over an engine they are its own before they are claimed. Then each instance gets its disks and
volumes; who does not get all that is new gets nothing."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Collection, Dict, Iterable, List, Mapping, Optional, Set, Tuple

from ...model.errors import BerthError
from ...model.messages import Document
from .. import new_volumes
from ..closing_table import error_of, why_of
from ..new_volumes import Making
from ..registry.interface import Changes
from .operate import Done, Tasks, operate
from .steps import Ask, Procedure


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run knows beside its tasks. ``hosts``: those that it asks; ``quotas``: by project; ``dry``: in check mode; ``changes``:
    what an engine decides in place of the hosts."""

    new_token: Callable[[], str]
    hosts: Collection[str]
    lost: Collection[str] = ()
    quotas: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    dry: bool = False
    changes: Optional[Changes] = None


def update_disks(tasks: Tasks, given: Mapping[str, Document], run: Run) -> Procedure[Dict[str, Done]]:
    """``tasks``: each with what plugin_utils/wanted_disks.py found, too. Return what became of each instance."""
    made, refused = yield from make_all(tasks, run)
    done = yield from operate("update_disks", {name: tasks[name] for name in tasks if name not in refused}, given)
    for name in made.intersection(done):
        done[name].changed = True
    return {**done, **{name: Done(errors=[error_of(why)]) for name, why in refused.items()}}


def make_all(tasks: Tasks, run: Run) -> Procedure[Tuple[Set[str], Dict[str, str]]]:
    """Make the new volumes, and have volumes grow. Return the instances that have some, and {name: why} of those that do not get
    them."""
    makings = new_volumes.to_make(tasks, run.new_token)
    refused = yield from _make(tasks, makings, run)
    return {making.name for making in makings}, refused


def _make(tasks: Tasks, makings: List[Making], run: Run) -> Procedure[Dict[str, str]]:
    """Return {name: why} of the instances that do not get their volumes."""
    yield from _ask([making for making in makings if not making.error], "claimed")
    claimed = [making for making in makings if not making.error]
    if not claimed or run.dry:
        return new_volumes.failures(makings)
    for making in claimed:
        making.is_claimed = True
    over: Mapping[str, BerthError]
    if run.changes:
        over = yield from run.changes.stand({making.name: tasks[making.name] for making in claimed})
    else:
        over = yield from _read_again(tasks, claimed, run)
    refused = {**new_volumes.failures(makings), **{name: new_volumes.message_of(error) for name, error in over.items()}}
    for making in claimed:
        making.error = making.error or refused.get(making.name)
    yield from _ask([making for making in claimed if making.error], "absent")
    yield from _ask([making for making in claimed if not making.error], "present")
    return {**new_volumes.failures(makings), **refused}


def _read_again(tasks: Tasks, claimed: List[Making], run: Run) -> Procedure[Mapping[str, BerthError]]:
    """Say of each that is not to be made why, and return why whole instances exceed a quota."""
    scans = yield Ask("rescan", {host: {} for host in run.hosts if host not in run.lost})
    new_volumes.decide(
        claimed, scans, {host: why_of(scan) for host, scan in scans.items() if "host_uuid" not in scan}, run.lost
    )
    answered = [scan for scan in scans.values() if "host_uuid" in scan]
    return new_volumes.after_the_claims(tasks, claimed, answered, run.quotas)


def _ask(makings: Iterable[Making], state: str) -> Procedure[None]:
    """Bring the volumes, or their growth, to the state on their hosts, and record what a host refused."""
    for of_host in new_volumes.rounds(makings):
        answers = yield Ask("volume", {host: making.arguments(state) for host, making in of_host.items()})
        for host, making in of_host.items():
            if answers[host].keys() & {"error", "reason"} and not making.error:
                code = (answers[host].get("error") or {"code": "HostUnreachable"})["code"]
                why = why_of(answers[host]).removeprefix(code + ": ")
                making.error = "%s: volume %s on %s: %s" % (code, making.volume["name"], host, why)
