# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host leaves the registry with all that is kept of it. Whatever is to come to a host writes its entry first, so nothing does
between the look at the instances and the write."""

from __future__ import annotations

import dataclasses
import functools
from typing import Collection, Optional

from ...model import fleet_hints, registry_hints
from ...model.errors import shortened
from ...model.messages import Document
from ..errors import HostInUse
from ..procedures.steps import Procedure, Scan, Transact
from . import enrol, hosts, keys
from .transactions import Draft, check_open, transacted


@dataclasses.dataclass(frozen=True)
class LeavesEngine:
    def leave(self, host: str, machine: Optional[str], answering: Collection[str]) -> Procedure[bool]:
        check_open((yield Transact(reads=(keys.META,)))["found"].get(keys.META))
        known, left = (yield from enrol.known_hosts()), False
        of_name = [uuid for uuid, name in known.items() if name == host and uuid not in answering]
        for uuid in [machine] if machine else of_name:
            there = yield from transacted(functools.partial(_left, uuid=uuid, host=host, lost=machine is None))
            left = left or there
        return left


def _left(draft: Draft, uuid: str, host: str, lost: bool) -> Procedure[bool]:
    key = keys.host(uuid)
    yield from draft.read(key)
    if draft.get(key) is None:
        return False  # it has left before, or the answer was lost
    found = (yield Scan(keys.INSTANCES))["found"]
    entries = [keys.document(name, each) for name, each in found.items()]
    held = [entry for entry in entries if uuid in keys.hosts_of(entry)]
    if lost:
        there = [entry for entry in held if entry["owner"] in (None, uuid)]
        _check_none(there, host, fleet_hints.give_up_instances(host))
        _check_none(held, host, registry_hints.end_moves_to_lost(host))
    _check_none(held, host, registry_hints.end_what_was_begun(host))
    hosts.forget(draft, uuid)
    return True


def _check_none(entries: Collection[Document], host: str, hint: str) -> None:
    if entries:
        held = shortened(sorted("instance %s" % entry["name"] for entry in entries))
        raise HostInUse("the registry has %s on %s, or on the way there" % (held, host), hint=hint)
