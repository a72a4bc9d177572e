# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells the hosts that have missed something where instances are, as a run has read it from all hosts: such as that one was
moved, of which only the two sides of the move know."""

from __future__ import annotations

from typing import Any, Dict, Iterable

from ..module_utils.conductor import majority
from ..module_utils.conductor.fleet import Fleet
from ..module_utils.conductor.gossip import lacking
from ..module_utils.conductor.procedures import copies
from ..module_utils.model.messages import Document
from .answers_of_hosts import replies
from .driving import carry_out
from .fan_out import ask


def tell_owners(action: Any, task_vars: Dict[str, Any], told: Document, hosts: Iterable[str]) -> None:
    """``told``: see conductor/gossip.whereabouts. A host that does not answer is told by a later run."""
    known = replies(task_vars, "__berth_facts")
    missed = lacking(told, {host: known.get(host, {}).get("digests") for host in hosts})
    if not action._task.check_mode:
        ask(action, task_vars, list(missed), "rescan", {}, {"told": missed})


def tell_members(action: Any, task_vars: Dict[str, Any], fleet: Fleet, news: Document, apart: str = "") -> None:
    """``news``: the entries of the list of the fleet that change, see conductor/majority.py. All prepared hosts that answer
    take them, ``apart`` from one. A host that does not answer learns it from them."""
    if news and not action._task.check_mode:
        told = {"members": {**majority.agreed(fleet.member_lists), **news}}
        ask(
            action,
            task_vars,
            sorted(set(fleet.documents) - set(fleet.unprepared()) - {apart}),
            "rescan",
            {"told": told},
        )


def tell_latest(action: Any, task_vars: Dict[str, Any], fleet: Fleet, name: str, told: Document) -> None:
    """Tell all hosts which record of ``name`` becomes the latest. Raise HostUnknown if one does not take it: it would take a
    lost host that is back for the owner."""
    carry_out(action, task_vars, copies.tell_latest(name, told, fleet.documents, fleet.unprepared()))
