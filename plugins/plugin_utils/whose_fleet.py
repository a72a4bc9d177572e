# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which fleet a file that the controller keeps is of: one user may have several, whose hosts may have the same names.

A file names the machines of its fleet: of each host its uuid, if it answered, and a digest of how it was reached. Who asked the
hosts compares uuids. Who asks none learns them from the newest file whose hosts are reached in the same way. Half of the
machines are enough, as hosts come and go; fewer are not, as a host may go from one fleet to another.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, Iterable, Mapping, Optional, Set

from ..module_utils.model.errors import BerthError
from .answers_of_hosts import FACT, replies
from .inventory_variables import variables

REACHED = ("ansible_connection", "ansible_host", "ansible_port", "ansible_ssh_common_args")
Machines = Dict[str, Dict[str, Optional[str]]]  # inventory name -> {uuid, reached}


def machines(task_vars: Mapping[str, Any], hosts: Iterable[str], uuids: Optional[Mapping[str, str]] = None) -> Machines:
    """The machines of this run's fleet, as far as they are known. ``uuids``: of the hosts, if not as they answered in this run."""
    if uuids is None:
        answers = replies(task_vars, "__berth_facts")
        uuids = {host: found for host, found in ((host, _uuid(answers.get(host))) for host in hosts) if found}
    return {host: {"uuid": uuids.get(host), "reached": _reached(task_vars, host)} for host in sorted(hosts)}


def _uuid(reply: Any) -> Optional[str]:
    uuid = (((reply or {}).get("ansible_facts") or {}).get(FACT) or {}).get("uuid")
    return str(uuid) if uuid else None


def _reached(task_vars: Mapping[str, Any], host: str) -> str:
    """A digest: a receipt that is passed on tells no addresses."""
    try:
        values = variables(task_vars, host, REACHED) if host in task_vars["hostvars"] else {}
    except BerthError:  # such as a template with an undefined variable: the host does not answer then
        values = {}
    return hashlib.sha256(json.dumps([host, values], sort_keys=True, default=str).encode()).hexdigest()[:16]


class Fleet:
    """The fleet of ``known``. Ask it about the newest file first."""

    def __init__(self, known: Machines) -> None:
        self.names = set(known)
        self.uuids, self.reached = _told(known, "uuid"), _told(known, "reached")

    def has(self, kept: Any) -> bool:
        """Whether a file with the machines ``kept`` is of this fleet. An older file has only names of hosts."""
        if isinstance(kept, list):
            return not self.names.isdisjoint(map(str, kept))
        if not isinstance(kept, dict):
            return kept is None
        uuids = _told(kept, "uuid")
        both = (self.uuids, uuids) if self.uuids and uuids else (self.reached, _told(kept, "reached"))
        if 2 * len(both[0] & both[1]) < max(1, min(map(len, both))):
            return False
        self.uuids |= uuids
        return True


def _told(known: Mapping[str, Any], part: str) -> Set[str]:
    return {str(each[part]) for each in known.values() if isinstance(each, dict) and each.get(part)}
