# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads hosts into the registry, some at a time, so that many workers can each read their cell. What is older than what the
registry has of a host replaces nothing there."""

from __future__ import annotations

from typing import Dict, List, NamedTuple

from ...model import registry_hints
from ..procedures.steps import Ask, Procedure
from . import enrol, hosts
from .transactions import RegistryClosed

AT_A_TIME = 100  # hosts, so that a worker's memory does not grow with its cell


class Refreshed(NamedTuple):
    """``written`` and ``newer``: hosts, the latter with a later word of them in the registry; ``failed``: host -> why."""

    written: List[str]
    newer: List[str]
    failed: Dict[str, str]


def refresh(run: enrol.Run) -> Procedure[Refreshed]:
    """``run.hosts``: those to read."""
    meta = yield from enrol.read_meta()
    if not meta.document:
        raise RegistryClosed("the registry is empty", hint=registry_hints.fill_registry())
    done = Refreshed([], [], {})
    for at in range(0, len(run.hosts), AT_A_TIME):
        read_at = run.now()
        fleet = run.read((yield Ask("host_facts", {host: {} for host in run.hosts[at : at + AT_A_TIME]})))
        done.failed.update(fleet.verdicts)
        known = yield from hosts.names([document["uuid"] for document in fleet.documents.values()])
        for host, document in fleet.documents.items():
            if document["uuid"] not in known or not enrol.is_of(document.get("registry"), meta.document):
                done.failed[host] = "it does not belong to this registry. %s" % registry_hints.enrol_host(host)
            elif run.dry or (yield from hosts.report(host, document, read_at)):
                done.written.append(host)
            else:
                done.newer.append(host)
    return done
