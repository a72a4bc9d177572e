# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person approves between place and create: these instances with these requests on these hosts, nothing else.

The digests leave out the user data: the digest of a short secret gives it away.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from ..model import input_hints
from ..model.errors import BerthError
from ..model.request_digest import of
from ..model.schema import Fields, MapOf, Text, Whole
from ..placement.weighing import MOST_SEED
from .plan import CLAIMING, FAILED, Instance, fail

Approved = Mapping[str, Mapping[str, Any]]
# Before a seed was drawn, it was always 0.
APPROVED = MapOf(
    Fields({"host": Text(longest=255), "request": Text(longest=64), "seed": Whole(0, MOST_SEED)}, {"seed": 0})
)


class NotApproved(BerthError):
    """Create would do something else than berth_approved allows. Nothing was claimed or created."""


def approval(instances: Mapping[str, Instance], seed: int = 0) -> Dict[str, Dict[str, Any]]:
    """What there is to approve: for each instance to be created its host, a digest of its request, and the seed by which
    create draws the same hosts."""
    return {
        name: {**_approved(instance), "seed": seed}
        for name, instance in instances.items()
        if instance.get("state") == CLAIMING
    }


def seed_of(approved: Approved) -> Optional[int]:
    """The seed of what was approved, None where nothing was."""
    return next((decided["seed"] for decided in approved.values()), None)


def _approved(instance: Instance) -> Dict[str, str]:
    """Leave out what other runs may change meanwhile: members of the server group, addresses from pools."""
    request = dict(instance["spec"], batch_id=None)
    request["group"] = {**(request.get("group") or {}), "members": None}
    request["networks"] = [
        {**nic, "address": None} if nic.get("pool") else nic for nic in request.get("networks") or ()
    ]
    return {"host": instance["host"] or "", "request": of(request)}


def hold_to(instances: Mapping[str, Instance], approved: Approved) -> None:
    """Refuse the run unless it creates what was approved. An approved instance that exists by now is left as it is.

    No alternate host is tried: it was not approved.
    """
    faults = [
        *_differing(approval(instances), approved),
        *("%s is not wanted" % name for name in sorted(set(approved) - set(instances))),
        *(
            "%s cannot be made: %s" % (name, _code(instances[name]))
            for name in sorted(set(approved) & set(instances))
            if instances[name].get("state") == FAILED
        ),
    ]
    if faults:
        raise _not_approved(faults)
    for instance in instances.values():
        if instance.get("state") == CLAIMING:
            instance["alternates"] = []


def hold_again(instances: Mapping[str, Instance], approved: Approved) -> None:
    """The same of instances for which hosts were chosen once more: of those that would go elsewhere, nothing is made."""
    for name, instance in instances.items():
        faults = _differing(approval({name: instance}), approved)
        if faults:
            fail(instance, _not_approved(faults))
        instance["alternates"] = []


def _not_approved(faults: List[str]) -> NotApproved:
    return NotApproved("this was not approved: " + "; ".join(faults), hint=input_hints.approve_again(), faults=faults)


def _code(instance: Instance) -> str:
    return str((instance.get("error") or {}).get("code"))


def _differing(now: Approved, approved: Approved) -> List[str]:
    faults = []
    for name, wanted in sorted(now.items()):
        decided = approved.get(name)
        if decided is None:
            faults.append("%s was not approved" % name)
        elif decided["request"] != wanted["request"]:
            faults.append("what %s would be made of has changed since" % name)
        elif decided["host"] != wanted["host"]:
            faults.append("%s would now go to %s, but %s was approved" % (name, wanted["host"], decided["host"]))
    return faults
