# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host leaves the fleet: the registry knows it no more, the other hosts are told what only it may know of any instance, it is
cleaned, and they hear that it belongs to the fleet no more. A run that was killed is run again."""

from __future__ import annotations

import dataclasses
from typing import Any, Collection, Iterable, Mapping, Optional

from ...model import fleet_hints, hints
from ...model.messages import Document
from .. import majority
from ..errors import HostInUse, HostNotCleaned
from ..fleet import Fleet
from ..gossip import remembered_by
from ..registry import enrol
from ..registry.interface import Leaves
from ..removal import check_removable
from .steps import Answers, Ask, Procedure, refusals
from .telling import tell_members

MOST_AT_ONCE = 5000  # instances: a reply has a limit
NOTHING: Document = {"changed": False, "removed": [], "left": []}


@dataclasses.dataclass(frozen=True)
class Removal:
    """``host``: by its name in the inventory; ``names``: uuid -> name of the inventory's instances; ``authorities``: kind -> the
    certificates, in PEM, of those that signed the host's; ``lost``: names of hosts that are gone for good, of which none is asked;
    ``registry``: None where the hosts are alone."""

    host: str
    names: Mapping[str, str]
    authorities: Mapping[str, str]
    lost: Collection[str] = ()
    registry: Optional[Leaves] = None
    dry: bool = False


def remove_host(removal: Removal, fleet: Fleet) -> Procedure[Document]:
    """Return {changed, removed, left}: the last two of what was cleaned. Raises HostInUse while something is, or may be, on the host,
    HostNotLost, RegistryOfOthers where the fleet belongs to a registry that the run does not name, or HostNotCleaned if a part was not
    done."""
    host, machine = removal.host, fleet.uuids().get(removal.host)
    if not removal.registry:
        enrol.check_alone(fleet)
    check_removable(fleet, host, removal.lost, None if removal.registry else removal.names)
    left = False
    if removal.registry:
        if machine:
            yield from _cleans(removal, check=True)  # what it refuses, it refuses before the registry forgets it
        left = yield from removal.registry.leave(host, machine, set(fleet.uuids().values()))
    cleaned = (yield from _cleaned(removal, fleet)) if machine else NOTHING
    if not removal.dry:
        yield from tell_members(fleet, majority.removed(fleet.member_lists, host, machine), apart=host)
    return {**cleaned, "changed": left or cleaned["changed"]}


def _cleaned(removal: Removal, fleet: Fleet) -> Procedure[Document]:
    host = removal.host
    yield from pass_on(fleet, host)
    done = yield from _cleans(removal)
    if done["restart"]:
        for service in done["restart"]:
            arguments = {"name": service, "state": "restarted"}
            yield from _done(host, "host_task", {"module": "service", "arguments": arguments})
        rest = yield from _cleans(removal)
        if rest["restart"]:
            raise HostNotCleaned(
                "%s on %s was restarted but still runs as before" % (", ".join(rest["restart"]), host),
                hint=hints.run_again(),
            )
        done = {"changed": True, "removed": done["removed"] + rest["removed"], "left": rest["left"]}
    return {part: done[part] for part in NOTHING}


def pass_on(fleet: Fleet, host: str) -> Procedure[None]:
    """Send the other hosts what only this one may know of any instance, also of those that are in no inventory. Raise
    HostNotCleaned unless they took it: it is lost otherwise."""
    others = sorted(set(fleet.documents) - set(fleet.unprepared()) - {host})
    uuids = fleet.uuids()

    def asked(hosts: Iterable[str], module: str, arguments: Document) -> Procedure[Answers]:
        replies = yield Ask(module, {name: arguments for name in hosts})
        for name, why, hint in refusals(replies):
            what = "say" if name == host else "take"
            message = "%s was not cleaned, since %s did not %s what it remembers of instances: %s"
            raise HostNotCleaned(message % (host, name, what, why), hint=hint)
        return replies

    heard_of = (yield from asked([host], "host_facts", {"heard_of": True}))[host].get("heard_of", ())
    yield from asked(others, "rescan", {"told": remembered_by(fleet, host)})
    rest = sorted(set(heard_of) - set(fleet.notes[uuids[host]]))
    for start in range(0, len(rest), MOST_AT_ONCE):
        replies = yield from asked([host, *others], "host_facts", {"about": rest[start : start + MOST_AT_ONCE]})
        notes = {uuids[name]: reply["notes"] for name, reply in replies.items()}
        yield from asked(others, "rescan", {"told": remembered_by(dataclasses.replace(fleet, notes=notes), host)})


def _cleans(removal: Removal, check: bool = False) -> Procedure[Document]:
    return (yield from _done(removal.host, "host_clean", {"authorities": dict(removal.authorities)}, check))


def _done(host: str, module: str, arguments: Document, check: bool = False) -> Procedure[Any]:
    reply = (yield Ask(module, {host: arguments}, check=check))[host]
    error = reply.get("error")
    if error and error.get("code") == "HostNotEmpty":
        raise HostInUse("%s: %s" % (host, error.get("message")), hint=fleet_hints.empty_host(host))
    if error:
        raise HostNotCleaned("%s: %s" % (host, error.get("message")), hint=error.get("hint") or hints.run_again())
    if "reason" in reply:
        raise HostNotCleaned(
            "it is not known whether %s was cleaned: %s" % (host, reply["reason"]), hint=hints.run_again()
        )
    return reply
