# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two hosts with one uuid: the inventory names one host twice, or one has a copy of the other's disks with all records.

If both answer, neither counts. A copy that answers alone would run every guest of the original a second time: it does
not count while other hosts know its uuid by the name of a silent host.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, Mapping, Set, Tuple

from ..model import fleet_hints
from ..model.messages import Document, Note, hosts_named
from .errors import HostIdentityConflict

# The codes of the verdicts: several hosts answer with one uuid, or one with that of a silent host.
CONFLICT, TAKEN = HostIdentityConflict.__name__, "HostIdentityTaken"

Told = Mapping[str, Mapping[str, Note]]  # host uuid -> {instance uuid: what that host remembers}


def twice(documents: Mapping[str, Document]) -> Iterator[Tuple[str, List[str]]]:
    """Yield (uuid, names) of the hosts that answer with the same uuid."""
    names: Dict[str, List[str]] = {}
    for name, document in documents.items():
        names.setdefault(document["uuid"], []).append(name)
    return ((uuid, sorted(same)) for uuid, same in names.items() if len(same) > 1)


def of_silent(
    documents: Mapping[str, Document], silent: Mapping[str, str], remembered: Told
) -> Dict[str, Tuple[str, str]]:
    """Host uuid -> (the host that answers with it, the silent host that other hosts know by it)."""
    names = {document["uuid"]: name for name, document in documents.items()}
    found: Dict[str, Tuple[str, str]] = {}
    for notes in remembered.values():
        for note in notes.values():
            for host in hosts_named(note):
                name = names.get(host["host_uuid"])
                if name and name != host["host"] and host["host"] in silent:
                    found[host["host_uuid"]] = (name, host["host"])
    return found


def verdict(uuid: str, names: List[str]) -> str:
    return "%s: %s. %s" % (CONFLICT, _said(uuid, names), fleet_hints.take_one_out())


def check_alone(host: str, uuids: Mapping[str, str]) -> None:
    """Raise HostIdentityConflict if another host of ``uuids`` (host -> its uuid) has the same."""
    names = sorted(name for name, uuid in uuids.items() if uuid == uuids[host])
    if len(names) > 1:
        raise HostIdentityConflict(_said(uuids[host], names), hint=fleet_hints.listed_twice(", ".join(names)))


def check_certificate(host: str, others: Set[str]) -> None:
    """Raise HostIdentityConflict if there are ``others``: hosts of the inventory, not compared yet, whose certificate it has."""
    if others:
        other = min(others)
        message = "%s has the certificate of %s, which is in the inventory, too" % (host, other)
        raise HostIdentityConflict(message, hint=fleet_hints.compare_machines(host, other))


def _said(uuid: str, names: List[str]) -> str:
    return "%s all answer with the host uuid %s" % (", ".join(names), uuid)


def verdict_alone(name: str, silent: str) -> str:
    hint = fleet_hints.renamed_or_copied(name, silent)
    return "%s: it answers with the uuid of %s, which does not answer. %s" % (TAKEN, silent, hint)
