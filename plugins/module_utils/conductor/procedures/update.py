# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An update of instances that exist. New addresses are claimed in their records before a guest has them, then all hosts are read
again: of two runs that claim one address, at least one sees the other, and chooses again or gives way. Over an engine they are its
own before they are claimed. Then each host brings its instance to the request."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, Mapping, Tuple

from ...model import address_clash
from ...model.errors import BerthError
from ...model.messages import Document
from .. import addressing
from ..closing_table import error_of, why_of
from . import update_disks
from .operate import Done, Tasks, operate
from .steps import Ask, Procedure

SEED, SPEC = "seed", "spec"


@dataclasses.dataclass(frozen=True)
class Run:
    """``disks``: what making volumes needs to know; ``seed_of``: (name, request) -> its seed; ``kept``: addresses that are not
    given out, whoever has them."""

    disks: update_disks.Run
    seed_of: Callable[[str, Document], Document]
    kept: address_clash.Index = dataclasses.field(default_factory=dict)


def update(tasks: Tasks, given: Mapping[str, Document], run: Run) -> Procedure[Dict[str, Done]]:
    """``tasks``: each with what plugin_utils/wanted_update.py found, too. Return what became of each instance."""
    made, refused = yield from update_disks.make_all(tasks, run.disks)
    done = {name: Done(errors=[error_of(why)]) for name, why in refused.items()}
    left = {name: task for name, task in tasks.items() if name not in refused}
    claimed: Dict[str, Done] = {}
    if not run.disks.dry:
        claiming = {name: dict(task) for name, task in left.items() if task["only_new"]}
        claimed = yield from _claim(claiming, run)
        left = {**left, **claiming}
    left = {name: task for name, task in left.items() if not (name in claimed and claimed[name].errors)}
    seeded = {name: {**given.get(name, {}), SEED: run.seed_of(name, task[SPEC])} for name, task in left.items()}
    done.update(claimed)
    for name, each in (yield from operate("update", left, seeded)).items():
        done[name] = _both(claimed[name], each) if name in claimed else each
        done[name].changed = done[name].changed or name in made
    return done


def _both(claim: Done, rest: Done) -> Done:
    """What both say that they changed, once."""
    rest.changed = rest.changed or claim.changed
    lines = [*(claim.instance.get("updates") or ()), *(rest.instance.get("updates") or ())]
    if lines:
        rest.instance["updates"] = list(dict.fromkeys(lines))
    rest.diff = claim.diff + rest.diff
    return rest


def _claim(tasks: Dict[str, Any], run: Run) -> Procedure[Dict[str, Done]]:
    """Write the new addresses into the records, and into the ``tasks`` those that were chosen again. Who cannot have them has an
    error, and its record as it was."""
    done: Dict[str, Done] = {}
    waiting = tasks
    while waiting:
        claims = yield from operate("update", waiting, {name: {"only_claim": True} for name in waiting})
        for name, each in claims.items():
            done[name] = _both(done[name], each) if name in done else each
        standing = {name: task for name, task in waiting.items() if not done[name].errors}
        waiting, lost = yield from _stand(standing, run)
        tasks.update(waiting)
        yield from _release({name: tasks[name] for name in lost})
        for name, error in lost.items():
            done[name].errors.append(error.to_dict())
    return done


def _stand(tasks: Tasks, run: Run) -> Procedure[Tuple[Dict[str, Any], Dict[str, BerthError]]]:
    """(those that have chosen again, those that lost an address)"""
    if run.disks.changes:
        return {}, (yield from run.disks.changes.stand(tasks))
    scans = yield Ask("rescan", {host: {} for host in run.disks.hosts if host not in run.disks.lost})
    return _decide(tasks, scans, run)


def _decide(tasks: Tasks, scans: Mapping[str, Any], run: Run) -> Tuple[Dict[str, Any], Dict[str, BerthError]]:
    held = addressing.addresses({host: scan["instances"] for host, scan in scans.items() if "instances" in scan})
    silent = {host: why_of(scan) for host, scan in scans.items() if "instances" not in scan}
    again: Dict[str, Any] = {}
    lost: Dict[str, BerthError] = {}
    for name, task in tasks.items():
        only = task["only_new"]
        try:
            addressing.check_seen(only, silent)
        except BerthError as error:
            lost[name] = error
            continue
        clash = address_clash.clash(only["spec"], held)
        if clash and addressing.choose_again(only, held, run.kept):
            again[name] = {**task, SPEC: addressing.with_chosen(task[SPEC], only["spec"]["networks"])}
        elif clash:
            lost[name] = clash
    return again, lost


def _release(tasks: Tasks) -> Procedure[None]:
    """The records without the new addresses: no guest has them yet. A NIC that the guest had before stays, else it would be unplugged.
    What a host does not do now, its next update does."""
    without = {}
    for name, task in tasks.items():
        new = task["only_new"][SPEC]
        had: Document = new["had"]
        gone = {nic["mac"] for nic in new["networks"]} - set(had)
        stay = (nic for nic in task[SPEC]["networks"] if nic["mac"] not in gone)
        networks = [{**nic, **had.get(nic["mac"], {})} for nic in stay]
        without[name] = {**task, SPEC: {**task[SPEC], "networks": networks}}
    yield from operate("update", without, {name: {"only_claim": True} for name in without})
