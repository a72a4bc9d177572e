# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host does for each state of module instance: one row of ACTS for each."""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional

from ...model import adopted
from ..move import left_backup
from ..record import journal
from ..record.record_copy import take_back
from . import adopt, pause, power, rebuild, rename, rescue, shelve, snapshots, update, update_adopted
from .update_disks import update_disks, would_update_disks

Params = Dict[str, Any]


class Act(NamedTuple):
    """``do`` and ``would`` return whether anything was, or would be, changed, for (instance, arguments of the module).
    ``shown``: the guest's state afterwards, None if it stays. ``compared``: the guest or its definition may change, so it is
    compared with its record again. ``parts``: what else of the summary would be another, for
    (instance, summary, arguments). ``lockable``: a lock stops it."""

    do: Callable[[Any, Params], Any]
    would: Callable[[Any, Params], bool]
    shown: Optional[str] = None
    compared: bool = True
    parts: Optional[Callable[[Any, Params, Params], Params]] = None
    lockable: bool = True


def _of_update(instance: Any) -> Any:
    record = instance.store.read(instance.uuid)
    return update_adopted if record is not None and adopted.of(record.spec) else update


ACTS: Dict[str, Act] = {
    "present": Act(
        lambda instance, p: power.present(instance, p, False),
        lambda instance, p: power.present(instance, p, True),
        "running", lockable=False,
    ),
    "started": Act(
        lambda instance, p: power.start(instance, p["token"], p["seed"]),
        lambda instance, p: power.would_start(instance, p["token"]),
        "running",
    ),
    "stopped": Act(
        lambda instance, p: instance.stopped(p["shutdown_timeout"]), lambda instance, _p: instance.would_stop(), "shutdown"
    ),
    "paused": Act(lambda instance, _p: pause.pause(instance), lambda instance, _p: pause.would_pause(instance), "paused"),
    "unpaused": Act(
        lambda instance, _p: pause.bring_back(instance, "unpause"),
        lambda instance, _p: pause.would_bring_back(instance, "unpause"),
        "running",
    ),
    "suspended": Act(
        lambda instance, _p: pause.suspend(instance), lambda instance, _p: pause.would_suspend(instance), "shutdown"
    ),
    "resumed": Act(
        lambda instance, _p: pause.bring_back(instance, "resume"),
        lambda instance, _p: pause.would_bring_back(instance, "resume"),
        "running",
    ),
    "rebooted": Act(
        lambda instance, p: power.reboot(instance, p["reboot"] == "hard", p["shutdown_timeout"]) or True,
        lambda instance, p: power.would_reboot(instance, p["reboot"] == "hard"),
        "running",
    ),
    "absent": Act(
        lambda instance, p: instance.absent(p["changed_disks"], p["after"]),
        lambda instance, p: instance.would_remove(p["changed_disks"]),
        "absent", compared=False,
    ),
    "adopted": Act(
        lambda instance, p: adopt.adopt(instance, adopt.wanted(p)),
        lambda instance, p: adopt.would_adopt(instance, adopt.wanted(p)),
        compared=False, lockable=False,
    ),
    "left": Act(
        lambda instance, p: adopt.leave(instance, p["after"]),
        lambda instance, _p: adopt.would_leave(instance),
        "absent", compared=False,
    ),
    "recovered": Act(
        lambda instance, _p: power.recover(instance), lambda instance, _p: power.would_recover(instance), "running",
        lockable=False,
    ),
    "recorded": Act(
        lambda instance, p: take_back(instance, p["after"] or [0, 0], False, p["moved_by"]),
        lambda instance, p: take_back(instance, p["after"] or [0, 0], True, p["moved_by"]),
        compared=False, lockable=False,
    ),
    "locked": Act(
        lambda instance, p: power.lock(instance, journal.who(), p["reason"]),
        lambda instance, _p: power.would_lock(instance),
        compared=False, lockable=False,
    ),
    "unlocked": Act(
        lambda instance, _p: power.unlock(instance), lambda instance, _p: power.would_unlock(instance),
        compared=False, lockable=False,
    ),
    "snapshotted": Act(
        lambda instance, p: snapshots.snapshot(instance, p["snapshot"], p["snapshot_memory"]),
        lambda instance, p: snapshots.would_snapshot(instance, p["snapshot"], p["snapshot_memory"]),
        parts=lambda instance, _before, p: snapshots.after_snapshot(instance, p["snapshot"], p["snapshot_memory"]),
    ),
    "snapshot_reverted": Act(
        lambda instance, p: snapshots.revert(instance, p["snapshot"]),
        lambda instance, p: snapshots.would_revert(instance, p["snapshot"]),
        parts=lambda instance, _before, p: snapshots.after_revert(instance, p["snapshot"]),
    ),
    "snapshot_deleted": Act(
        lambda instance, p: snapshots.delete(instance, p["snapshot"]),
        lambda instance, p: snapshots.would_delete(instance, p["snapshot"]),
        parts=lambda _instance, before, p: {
            "snapshots": [each for each in before["snapshots"] if each["name"] != p["snapshot"]]
        },
    ),
    "disks_updated": Act(
        lambda instance, p: update_disks(instance, p["disks"], p["volumes"]),
        lambda instance, p: would_update_disks(instance, p["disks"], p["volumes"]),
    ),
    "renamed": Act(
        lambda instance, p: rename.rename(instance, p["new_name"]),
        lambda instance, p: rename.would_rename(instance, p["new_name"]),
        compared=False, parts=lambda _instance, _before, p: {"name": p["new_name"]},
    ),
    "updated": Act(
        lambda instance, p: _of_update(instance).update(instance, p),
        lambda instance, p: _of_update(instance).would_update(instance, p),
    ),
    "rebuilt": Act(
        rebuild.rebuild, rebuild.would_rebuild,
        parts=lambda _instance, _before, p: {"image": p["spec"]["image"]["name"], "snapshots": []},
    ),
    "shelved": Act(shelve.shelve, shelve.would_shelve, "shutdown"),
    "unshelved": Act(shelve.unshelve, lambda instance, _p: shelve.would_unshelve(instance), "running"),
    "rescued": Act(rescue.rescue, rescue.would_rescue, "running"),
    "unrescued": Act(rescue.unrescue, lambda instance, _p: rescue.would_unrescue(instance), "running"),
}  # fmt: skip


# State -> the operation that only a created instance takes.
NOT_OF_ADOPTED = {"disks_updated": "update_disks", "rebuilt": "rebuild", "rescued": "rescue", "shelved": "shelve"}


def act(instance: Any, params: Params, dry: bool) -> bool:
    """Bring the instance to the requested state. Return whether anything was, or would be, changed."""
    adopt.check_supported(instance, NOT_OF_ADOPTED.get(params["state"]))
    row = ACTS[params["state"]]
    bring = row.would if dry else row.do
    if not row.lockable:
        return bool(bring(instance, params))
    with power.unlocked(instance, dry):
        if not dry:
            left_backup.end_at_rest(instance.host, instance.uuid)
        return bool(bring(instance, params))


def outcome_of(instance: Any, params: Params, dry: bool, gone: Any = ()) -> Dict[str, Any]:
    """The reply of module instance: {changed, instance, diff}. ``gone``: what that gives up, in words."""
    row = ACTS[params["state"]]
    parts = (lambda before: row.parts(instance, before, params)) if row.parts else None
    return power.outcome_of(
        instance, params, dry, lambda: act(instance, params, dry), gone, row.shown, row.compared, parts
    )
