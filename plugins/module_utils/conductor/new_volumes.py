# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes that update_disks creates for existing instances, or has grow: claimed first, settled after all hosts were read
again.

If two runs create one volume on two hosts, or exceed a quota together, at least one of them sees the other's claim and
gives way.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Collection, Dict, Iterable, List, Mapping, Optional

from ..model.errors import BerthError, InvalidInput
from ..model.messages import Document
from ..model.quota import Amounts, QuotaExceeded, usage
from . import lost_data, volume_hosts
from .fleet import Fleet
from .quotas import Request, over, without


@dataclasses.dataclass
class Making:
    """A volume {uuid, name, size_gb, pool, image, instance (its uuid)} to create on ``host`` for instance ``name``. With
    ``from_gb`` it is there, has that size and grows: {uuid, name, size_gb, instance}."""

    name: str
    host: str
    volume: Document
    token: str
    is_claimed: bool = False
    error: Optional[str] = None
    from_gb: Optional[int] = None

    @property
    def uuid(self) -> str:
        return str(self.volume["uuid"])

    @property
    def grows(self) -> bool:
        return self.from_gb is not None

    @property
    def needs(self) -> Amounts:
        """What it adds to the usage of the project."""
        return {"volumes": int(not self.grows), "gigabytes": int(self.volume["size_gb"]) - (self.from_gb or 0)}

    def arguments(self, state: str) -> Document:
        asked = {"uuid": self.uuid, "state": state, "token": self.token, **({"grows": True} if self.grows else {})}
        parts = {part: value for part, value in self.volume.items() if part != "uuid"}
        return asked if state == "absent" else {**asked, "volume": parts}


def wanted_by(
    fleet: Fleet,
    name: str,
    task: Mapping[str, Any],
    wanted: Collection[Document],
    lost: Collection[str],
    rebuilt: Collection[str],
    image_of: Callable[[str], Any],
) -> Document:
    """{volumes, new_volumes, grown_volumes, gives_up} of an existing instance that is to have the volumes ``wanted`` [{name, uuid,
    size_gb, pool, boot_index, delete_on_termination}]. ``task``: where it is; ``gives_up``: what a person said may go, or empty."""
    uuid, host = task["uuid"], task["hosts"][-1] if task["hosts"] else None
    new, gives_up = lost_data.volumes_to_make(fleet, name, uuid, host, wanted, lost, rebuilt)
    boots = [entry["name"] for entry in wanted if entry["uuid"] in new and entry["boot_index"] == 0]
    if boots:
        rule = "set when the instance is created: an existing instance boots from what it was created with"
        raise InvalidInput("berth_volumes.%s.boot_index" % boots[0], 0, rule)
    place = fleet.place_on(uuid, host)
    pool = place["pool"] if place else None
    parts = ("name", "size_gb", "delete_on_termination", "boot_index")
    sized = [{**{part: entry[part] for part in ("uuid", "name", "size_gb")}, "instance": uuid} for entry in wanted]
    has = {entry["uuid"]: volume_hosts.grows_from(fleet, entry) for entry in wanted}
    return {
        "gives_up": gives_up,
        "volumes": [{part: entry[part] for part in parts if entry[part] is not None} for entry in wanted],
        "new_volumes": [
            {**volume, "pool": entry["pool"] or pool, "image": image_of(entry["name"])}
            for volume, entry in zip(sized, wanted)
            if volume["uuid"] in new
        ],
        "grown_volumes": [
            {**volume, "from_gb": has[volume["uuid"]]} for volume in sized if has[volume["uuid"]] is not None
        ],
    }


def to_make(instances: Mapping[str, Mapping[str, Any]], new_token: Callable[[], str]) -> List[Making]:
    """``instances``: name -> {hosts, new_volumes, grown_volumes}. If two of them want the same volume, only the first gets
    it."""
    found: List[Making] = []
    takers: Dict[str, str] = {}
    for name, instance in instances.items():
        for volume in [*(instance.get("new_volumes") or ()), *(instance.get("grown_volumes") or ())]:
            parts = {part: value for part, value in volume.items() if part != "from_gb"}
            making = Making(name, instance["hosts"][-1], parts, new_token(), from_gb=volume.get("from_gb"))
            taker = takers.setdefault(making.uuid, name)
            if taker != name:
                making.error = message_of(volume_hosts.wanted_twice(str(volume["name"]), taker, name))
            found.append(making)
    return found


def rounds(makings: Iterable[Making]) -> List[Dict[str, Making]]:
    """[host -> its next request]: each host gets one request at a time."""
    found: List[Dict[str, Making]] = []
    for making in makings:
        free = next((each for each in found if making.host not in each), None)
        if free is None:
            found.append({making.host: making})
        else:
            free[making.host] = making
    return found


def decide(
    makings: Iterable[Making],
    scans: Mapping[str, Mapping[str, Any]],
    silent: Mapping[str, str],
    lost_hosts: Collection[str],
) -> None:
    """A claimed volume fails if another host has it, or may have it; one that grows, if its own host does not answer.
    ``scans``: host -> its report after the claims."""
    for making in makings:
        if making.grows and making.host in silent:
            making.error = making.error or "HostUnreachable: volume %s on %s: %s" % (
                making.volume["name"], making.host, silent[making.host],
            )  # fmt: skip
        elif making.is_claimed and not making.error and not making.grows:
            try:
                volume_hosts.check_claim(making.volume, making.host, scans, silent, lost_hosts)
            except BerthError as error:
                making.error = message_of(error)


def message_of(error: BerthError) -> str:
    return str(error.to_result()["msg"])


def failures(makings: Iterable[Making]) -> Dict[str, str]:
    """Instance -> why it does not get its volumes; only the first reason."""
    found: Dict[str, str] = {}
    for making in makings:
        if making.error:
            found.setdefault(making.name, making.error)
    return found


# The quota of the volumes that update_disks makes and grows: counted from the facts, and again after the claims.


def before_the_claims(
    instances: Mapping[str, Mapping[str, Any]], fleet: Fleet, quotas: Mapping[str, Amounts]
) -> Dict[str, QuotaExceeded]:
    """{name: error} of the instances whose volumes exceed the quota; earlier ones of the run count. ``instances``: name ->
    {project, new_volumes, grown_volumes}. What an interrupted run has claimed counts already."""
    sizes = {volume["uuid"]: volume["size_gb"] for _host, volume in fleet.volumes()}
    requests = []
    for name, instance in instances.items():
        new = {volume["uuid"]: volume["size_gb"] for volume in instance.get("new_volumes") or ()}
        new = {uuid: size_gb for uuid, size_gb in new.items() if uuid not in sizes}
        more = [volume["size_gb"] - sizes[volume["uuid"]] for volume in instance.get("grown_volumes") or ()]
        sizes.update(new)  # the second that wants one is refused for that
        needs = {"volumes": len(new), "gigabytes": sum(new.values()) + sum(max(0, gb) for gb in more)}
        requests.append(Request(name, instance["project"], needs))
    return over(requests, usage(fleet.documents.values()), quotas)


def after_the_claims(
    instances: Mapping[str, Mapping[str, Any]],
    makings: Collection[Making],
    scans: Iterable[Mapping[str, Any]],
    quotas: Mapping[str, Amounts],
) -> Dict[str, QuotaExceeded]:
    """The same from the hosts' replies after the claims of ``makings``, with the claims of other runs."""
    claimed = []
    for name, instance in instances.items():
        needs: List[Amounts] = [making.needs for making in makings if making.name == name]
        total = {part: sum(need[part] for need in needs) for part in ("volumes", "gigabytes")}
        claimed.append(Request(name, instance["project"], total))
    return over(claimed, without(usage(scans), claimed), quotas)
