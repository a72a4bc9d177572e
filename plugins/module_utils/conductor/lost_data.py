# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances and volumes whose data a lost host has, or may have: to make one again makes it empty, and gives these data up.

Saying that a host is lost does not say that nobody needs what it had: a person names each such instance.
"""

from __future__ import annotations

from typing import Any, Collection, Iterable, List, Mapping, Optional, Tuple

from ..model import disk_words, fleet_hints
from ..model import volumes as requested
from . import volume_hosts
from .errors import DataWouldBeLost
from .fleet import Fleet
from .notes import given_up
from .plan import CLAIMING, FAILED, Instance, fail


def settle(instances: Mapping[str, Instance], fleet: Fleet, lost: Collection[str], rebuilt: Collection[str]) -> None:
    """Settle the volumes of instances to create. Then fail each that would be made empty though a ``lost`` host may have
    its disks, unless it is among those that a person has ``rebuilt``: of these, ``gives_up`` says what is given up."""
    volume_hosts.settle(instances, fleet, lost)
    silent = _silent(fleet, lost)
    for name, instance in instances.items():
        if not lost or instance.get("existing") or instance.get("take_over") or instance.get("from_backup"):
            continue
        if instance.get("state") not in (None, CLAIMING):
            continue
        host = _had_it(instance, fleet, lost)
        new = disk_words.of_volumes(entry for entry in requested.of(instance["spec"]) if entry.get("new"))
        parts = (disk_words.own(instance["spec"]) if host else []) + new * bool(host or silent)
        if not parts:
            continue
        given = _given(host or silent, parts)
        if name in rebuilt or instance["name"] in rebuilt:
            instance["gives_up"] = "made empty; gives up " + given
        else:
            text = "%s would be made empty. That gives up %s" % (instance["name"], given)
            fail(instance, DataWouldBeLost(text, hint=fleet_hints.rebuild_lost(instance["name"], sorted(lost))))


def volumes_to_make(
    fleet: Fleet,
    name: str,
    uuid: str,
    host: Optional[str],
    wanted: Collection[Mapping[str, Any]],
    lost: Collection[str],
    rebuilt: Collection[str],
) -> Tuple[List[str], str]:
    """The uuids of the volumes ``wanted`` [{name, uuid, size_gb}] that have still to be made on ``host`` for the instance
    there, and what that gives up, for people; empty if nothing. Raise DataWouldBeLost if nobody said that it may go."""
    new = volume_hosts.to_have(fleet, name, uuid, host, wanted, lost)
    parts, silent = disk_words.of_volumes(entry for entry in wanted if entry["uuid"] in new), _silent(fleet, lost)
    if not silent or not parts:
        return new, ""
    given = _given(silent, parts)
    if name in rebuilt:
        return new, "gets volumes anew; gives up %s" % given
    text = "volumes of %s would be made anew. That gives up %s" % (name, given)
    raise DataWouldBeLost(text, hint=fleet_hints.remake_lost_volumes(name, sorted(lost)))


def warnings(instances: Mapping[str, Instance]) -> List[str]:
    rebuilt = {name: each for name, each in instances.items() if each.get("gives_up") and each["state"] != FAILED}
    return ["%s is %s" % (name, each["gives_up"]) for name, each in rebuilt.items()]


def _had_it(instance: Instance, fleet: Fleet, lost: Collection[str]) -> str:
    """The lost hosts that had the instance, or may have it by the plan of a run; empty if there are none."""
    noted, answers = fleet.notes_on(instance["uuid"]), fleet.answers(lost)
    owner = [noted.known] if noted.known and not answers.counts(noted.known) else []
    return " and ".join(sorted({note.host for note in (*owner, *given_up(noted, answers))}))


def _silent(fleet: Fleet, lost: Collection[str]) -> str:
    """The lost hosts of the inventory, any of which may have a volume that no host has that answers: nobody remembers
    where the volumes of others were."""
    return " and ".join(sorted(set(lost) & set(fleet.verdicts)))


def _given(host: str, parts: Iterable[str]) -> str:
    return "what may be on %s: %s (sizes by the inventory)" % (host, ", ".join(parts))
