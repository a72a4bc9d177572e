# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which existing instances create leaves alone without asking their hosts again: those that are as the inventory asks, by
what the hosts reported (compute/guest/settled.py)."""

from __future__ import annotations

from typing import Dict, Iterable, Mapping, Optional, TypedDict

from ..model import nics, request_digest, vm_states
from ..model.messages import Document
from .plan import ACTIVE, EXISTING, Instance, Plan, host_of


class SettledInstance(TypedDict):
    """What a host reports about an instance that is as its record says, see compute/guest/settled.py."""

    uuid: str
    converged: bool
    compared: bool
    filters: Dict[str, str]
    address: Optional[str]  # an earlier version does not look for it
    instance: Document


def pass_over_unchanged(plan: Plan, looks: Mapping[str, Iterable[SettledInstance]]) -> None:
    """Remove from the builds the instances that are already as requested, judging by ``looks`` (host -> its reports).
    Any other instance gets a call of its own, also one that its host did not report."""
    found = {host: {look["uuid"]: look for look in settled} for host, settled in looks.items()}
    for name in list(plan["build"]):
        instance = plan["instances"][name]
        if instance["state"] != EXISTING:
            continue
        look = found.get(host_of(instance), {}).get(instance["uuid"])
        if look and _is_as_wanted(instance, look):
            instance["state"], instance["changed"], instance["result"] = ACTIVE, False, look["instance"]
            if "address" in look:
                instance["known_address"] = look["address"]
            plan["build"].remove(name)


def _is_as_wanted(instance: Instance, look: SettledInstance) -> bool:
    """Whether the module instance would change nothing and report nothing new."""
    power, shown = vm_states.power_state(instance.get("berth_state"), instance.get("locked")), look["instance"]
    if power and not shown.get("locked") and not (look["converged"] and shown.get("power_state") == power):
        return False
    asked = nics.asking_filters(instance["spec"].get("networks"))
    if instance.get("mend") and not (look["compared"] and set(asked) <= set(look["filters"])):
        return False
    return request_digest.follows_filters(look["filters"], instance["spec"].get("networks"))
