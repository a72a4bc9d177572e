# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which whereabouts of instances each host is sent: those that the run has read and the host does not remember.
Afterwards it remembers the same as if it had been sent everything: if its digest of a part of the instances equals
the run's, it has every entry of that part.
"""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional

from ..model.messages import Document
from ..model.whereabouts_digest import digests, part_of

MOST_PARTS = 64  # if more parts than this differ, the host is sent everything


def lacking(told: Document, remembered: Mapping[str, Optional[Mapping[str, str]]]) -> Dict[str, Document]:
    """Return {host: what to send} of the hosts that lack an owner among ``told``. ``remembered``: {host: its digests}."""
    telling = Telling(told)
    found = {host: telling.to(of_host) for host, of_host in remembered.items() if of_host is not None}
    return {host: to_send for host, to_send in found.items() if to_send.get("known")}


class Telling:
    """``told``: what all hosts together should know, see compute/record/whereabouts.remember."""

    def __init__(self, told: Document) -> None:
        self._told = told
        names, known = told.get("hosts") or {}, told.get("known") or {}
        owners = {
            uuid: (host_uuid, epoch, n) for host_uuid, owned in known.items() for uuid, (epoch, n) in owned.items()
        }
        self._digests = digests(owners, names)
        self._parts: Dict[str, List[str]] = {}
        for uuid in owners:
            self._parts.setdefault(part_of(uuid), []).append(uuid)
        self._owners = owners

    def to(self, remembered: Optional[Mapping[str, str]]) -> Document:
        """What to send a host. ``remembered``: the host's own digests, None if it sent none."""
        if remembered is None or "known" not in self._told:
            return self._told
        differ = {part for part in {*self._digests, *remembered} if self._digests.get(part) != remembered.get(part)}
        if len(differ) > MOST_PARTS:
            return self._told
        known: Dict[str, Dict[str, List[int]]] = {}
        for part in sorted(differ):
            for uuid in self._parts.get(part, ()):
                host_uuid, epoch, n = self._owners[uuid]
                known.setdefault(host_uuid, {})[uuid] = [epoch, n]
        # Names may have changed wherever a digest differs, and in the plans, which no digest covers.
        names = self._told["hosts"] if differ else self._names_of_plans()
        return {**self._told, "known": known, "hosts": names}

    def _names_of_plans(self) -> Dict[str, str]:
        planned = {plan["host_uuid"] for plan in self._told.get("planned") or ()}
        return {host_uuid: name for host_uuid, name in self._told["hosts"].items() if host_uuid in planned}
