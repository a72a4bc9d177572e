# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the doctor examines, from the hosts' answers in this run and the inventory."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from ..module_utils.conductor.doctor import Case
from .answers_of_hosts import read_reports, replies
from .inventory_differences import InventoryDifferences
from .plain import plain
from .selection import known_hosts, names_by_uuid


def case_of(task_vars: Dict[str, Any], hosts: List[str], asked: Sequence[float], loader: Any) -> Case:
    """``asked``: when the hosts were asked, and when they had answered; ``loader``: Ansible's."""
    fleet = read_reports(task_vars, hosts)
    answers = plain(replies(task_vars, "__berth_facts"))
    checkups = {host: answers[host]["checkup"] for host in fleet.documents if "checkup" in answers.get(host, {})}
    fleet.notes = {fleet.documents[host]["uuid"]: checkup["notes"] for host, checkup in checkups.items()}
    named = names_by_uuid(task_vars)
    inventory = InventoryDifferences(task_vars, list(named.values()), hosts, loader)
    wished = {
        uuid: (inventory.request(name, fleet.places.get(uuid, ())) or {}).get("networks") or ()
        for uuid, name in named.items()
        if any(place["unfiltered"] for place in fleet.places.get(uuid, ()))
    }
    return Case(fleet, checkups, named, known_hosts(task_vars, hosts), (asked[0], asked[1]), wished)
