# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host does for each state of module instance_backup, and its reply."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

from ...model import backup_hints
from ...model.backups import Backup
from ..guest import power
from . import away, backup_chain, make, place, restore, to_image

AWAY = ("planned", "sent", "noted", "fits", "fetched", "let_go")
STATES = ("made", "listed", "restored", "image_made", "deleted", *AWAY)
DELETE = "delete_backup"


def outcome_of(instance: Any, params: Dict[str, Any], dry: bool) -> Dict[str, Any]:
    """Return {changed, instance, diff}."""
    if params["state"] == "listed":
        found = listed(instance, params)
        return {"changed": False, "instance": {**power.summary_after(instance), "backups": found}}
    if params["state"] == "image_made":
        return _image(instance, to_image.Wish(params["image"], params["to"]), dry)
    if params["state"] == "deleted":
        return _deleted(instance, params, dry)
    if params["state"] in AWAY:
        return _away(instance, params, dry)
    if params["state"] == "made":
        wish = make.Wish(*(params[name] for name in make.Wish._fields))
        changed = make.would_back_up(instance, wish) if dry else make.back_up(instance, wish)
        _tell_shared_storage(instance, wish.to)
        words = "a backup in %s" % wish.to
    else:
        chosen = restore.Wish(*(params[name] for name in restore.Wish._fields))
        with power.unlocked(instance, dry):
            changed = restore.would_restore(instance, chosen) if dry else restore.restore(instance, chosen)
        words = "the disks of a backup in %s" % chosen.to
    made = [backup_chain.told(changed)] if isinstance(changed, Backup) else []
    diff = {"before": "", "after": "%s%s\n" % (words, ": " + made[0]["id"] if made else "")}
    return {"changed": bool(changed), "instance": {**power.summary_after(instance), "backups": made}, "diff": diff}


def _tell_shared_storage(instance: Any, to: str) -> None:
    """It may be a large storage of several machines, so it is not refused."""
    pool = instance.host.pool_of(instance.store.read(instance.uuid))
    if os.stat(pool).st_dev == os.stat(to).st_dev:
        text = "%s is on the file system of its disks, which backups fill, and both are lost together. %s"
        instance.told.append(text % (to, backup_hints.name_another_place()))


def _away(instance: Any, params: Dict[str, Any], dry: bool) -> Dict[str, Any]:
    """One step of this host in a backup or restore of which a backup host does the others."""
    wish, shown = away.Wish(*(params[name] for name in away.Wish._fields)), {}
    state: str = params["state"]
    made: Optional[Backup] = None
    if state == "planned":
        shown = {"parts": away.planned(instance, wish, dry)}
    elif state == "fits":
        with power.unlocked(instance, True):
            away.fits(instance, wish, params["discards"])
    elif state == "let_go":
        with power.unlocked(instance, True):
            instance.at_rest(DELETE)
    elif not dry and state == "fetched":
        with power.unlocked(instance, dry):
            made = away.restored(instance, wish, params["discards"])
    elif not dry:
        {"sent": away.sent, "noted": away.noted}[state](instance, wish)
    if made:
        shown = {"backups": [backup_chain.told(made)]}
    return {
        "changed": state not in ("planned", "fits", "let_go"),
        "instance": {**power.summary_after(instance), **shown},
    }


def _deleted(instance: Any, params: Dict[str, Any], dry: bool) -> Dict[str, Any]:
    with power.unlocked(instance, dry):
        record = instance.at_rest(DELETE)
        to = place.check(instance.host.connection.getHostname(), params["to"], instance.host.pool_of(record))
        found = backup_chain.deleted(
            place.Place(to, record.uuid), (params["backup"] or "").split(","), record.name, dry
        )
    diff = {"before": "".join("backup %s\n" % one["id"] for one in found), "after": ""}
    return {"changed": bool(found), "instance": {**power.summary_after(instance), "backups": found}, "diff": diff}


def _image(instance: Any, wish: to_image.Wish, dry: bool) -> Dict[str, Any]:
    if dry:
        done: Dict[str, Any] = {"changed": to_image.would_make_image(instance, wish)}
    else:
        done = to_image.make_image(instance, wish)
    shown = {"made_image": done["image"]} if "image" in done else {}
    diff = {"before": "", "after": "image %s\n" % wish.image if done["changed"] else ""}
    return {"changed": done["changed"], "instance": {**power.summary_after(instance), **shown}, "diff": diff}


def listed(instance: Any, params: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Return the backups, the oldest first."""
    host, record = instance.host, instance.store.read(instance.uuid)
    pool = host.pool_of(record) if record else host.pool_path()
    to = place.check(host.connection.getHostname(), params["to"], pool)
    where = place.of_instance(to, params["of"] or instance.uuid, record.project_id if record else "")
    return backup_chain.all_told(where, params["deep"])
