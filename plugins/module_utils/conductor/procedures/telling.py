# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What hosts are told of each other's instances before a run changes any: who owns them, and which record becomes the latest.
And which hosts belong to the fleet."""

from __future__ import annotations

from typing import Any, Collection, Mapping, Optional

from ...model import hints
from ...model.messages import Document
from .. import majority
from ..closing_table import text_of
from ..errors import HostUnknown
from ..fleet import Fleet
from ..gossip import lacking
from .steps import Ask, Procedure


def tell_owners(told: Document, digests: Mapping[str, Optional[Mapping[str, str]]]) -> Procedure[None]:
    """``told``: see gossip.whereabouts(); ``digests``: host -> those of what it remembers. Only who lacks something is told; a
    host that does not answer is told by a later run."""
    missed = lacking(told, digests)
    if missed:
        yield Ask("rescan", {host: {"told": of_host} for host, of_host in missed.items()})


def tell_latest(name: str, told: Document, hosts: Collection[str], unprepared: Collection[str]) -> Procedure[None]:
    """``told``: see gossip.will_own(). Raise HostUnknown if one of the hosts does not take it: it would take a lost host
    that is back for the owner."""
    answers = yield Ask("rescan", {host: {"told": told} for host in hosts})
    for host, answer in answers.items():
        error: Mapping[str, Any] = answer.get("error") or {}
        if (error or "reason" in answer) and host not in unprepared:
            why = answer.get("reason") or text_of({**error, "hint": None})
            raise HostUnknown(
                "the record of %s was left as it is: %s did not accept that it becomes the latest: %s"
                % (name, host, why),
                hint=error.get("hint") or hints.run_again(),
            )


def tell_members(fleet: Fleet, news: Document, apart: str = "") -> Procedure[None]:
    """``news``: the entries of the list of the fleet that change, see majority.py. All prepared hosts that answer take them,
    ``apart`` from one. A host that does not answer learns it from them."""
    if news:
        told = {"members": {**majority.agreed(fleet.member_lists), **news}}
        hosts = sorted(set(fleet.documents) - set(fleet.unprepared()) - {apart})
        yield Ask("rescan", {host: {"told": told} for host in hosts})
