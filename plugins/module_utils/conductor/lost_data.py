# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances whose disks a lost host has, or may have: to create one again makes it empty, and gives these data up.

That a host is lost is one word, that nobody needs what it had is another: a person names each such instance.
"""

from __future__ import annotations

from typing import Collection, List, Mapping

from ..model import data_disks, fleet_hints, volumes
from .errors import DataWouldBeLost
from .fleet import Fleet
from .notes import given_up
from .plan import CLAIMING, FAILED, Instance, fail


def refuse(instances: Mapping[str, Instance], fleet: Fleet, lost: Collection[str], rebuilt: Collection[str]) -> None:
    """Fail each instance that would be made empty though a ``lost`` host may have its disks, unless it is among those
    that a person has ``rebuilt``. Of these, ``gives_up`` says what is given up. Volumes are settled before."""
    silent = " and ".join(sorted(set(lost) & set(fleet.verdicts)))
    for name, instance in instances.items():
        if not lost or instance.get("existing") or instance.get("state") not in (None, CLAIMING):
            continue
        host = _had_it(instance, fleet, lost)
        parts = (_own_disks(instance) if host else []) + _new_volumes(instance) * bool(host or silent)
        if not parts:
            continue
        given = "what may be on %s: %s (sizes by the inventory)" % (host or silent, ", ".join(parts))
        if name in rebuilt or instance["name"] in rebuilt:
            instance["gives_up"] = "made empty; gives up " + given
        else:
            text = "%s would be made empty. That gives up %s" % (instance["name"], given)
            fail(instance, DataWouldBeLost(text, hint=fleet_hints.rebuild_lost(instance["name"], sorted(lost))))


def warnings(instances: Mapping[str, Instance]) -> List[str]:
    rebuilt = {name: each for name, each in instances.items() if each.get("gives_up") and each["state"] != FAILED}
    return ["%s is %s" % (name, each["gives_up"]) for name, each in rebuilt.items()]


def _had_it(instance: Instance, fleet: Fleet, lost: Collection[str]) -> str:
    """The lost hosts that had the instance, or may have it by the plan of a run; empty if there are none."""
    noted, answers = fleet.notes_on(instance["uuid"]), fleet.answers(lost)
    owner = [noted.known] if noted.known and not answers.counts(noted.known) else []
    return " and ".join(sorted({note.host for note in (*owner, *given_up(noted, answers))}))


def _own_disks(instance: Instance) -> List[str]:
    """Those that the instance has by the inventory, besides its volumes; a root disk of 0 GiB is as large as its image."""
    spec = instance["spec"]
    sizes = {"root disk": volumes.root_gb(spec), "ephemeral disk": spec["flavor"].get("ephemeral_gb") or 0}
    sizes.update(("data disk %s" % disk["name"], disk["size_gb"]) for disk in data_disks.of(spec))
    if volumes.boot(spec):
        del sizes["root disk"]
    told = ["%s %d GiB" % each if each[1] else each[0] for each in sizes.items()]
    return [each for each in told if each != "ephemeral disk"]


def _new_volumes(instance: Instance) -> List[str]:
    """The volumes that no host has that answers: nobody remembers where the volumes of others were."""
    new = (entry for entry in volumes.of(instance["spec"]) if entry.get("new"))
    return ["volume %s %d GiB" % (entry["name"], entry["size_gb"]) for entry in new]
