# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where an operation acts on an instance that exists, by what the hosts reported."""

from __future__ import annotations

from typing import Any, Dict, List

from .fleet import Fleet
from .locate import locate, locate_to_delete, locate_to_run, locate_to_unlock
from .recovery import to_recover

FIND = {
    **dict.fromkeys(("reboot", "start", "update_disks"), locate_to_run),
    "delete": locate_to_delete,
    "unlock": locate_to_unlock,
}


def where(operation: str, fleet: Fleet, name: str, uuid: str, lost: List[str]) -> Dict[str, Any]:
    """{hosts: those that have a part of the instance, the owner last, and what else the operation needs to know}; no hosts
    if there is nothing to do. Raises what the functions of locate.py raise."""
    if operation == "recover":
        return to_recover(fleet, name, uuid, lost)
    hosts, noted = FIND.get(operation, locate)(fleet, name, uuid, lost), fleet.notes_on(uuid)
    known, answers = noted.known, fleet.answers(lost)
    given_up = known is not None and not answers.counts(known)
    owner = known.host_uuid if known else None
    hosts = fleet.failed_on(uuid) + hosts
    return {"hosts": hosts, "after": list(noted.latest), "owner": owner, "given_up": given_up}
