# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server group across all hosts, for a create or a move: its members, and where its policy is broken.

Each host checks anti-affinity under its own lock, so only affinity is checked here. While a host is silent, nobody knows
whether the members are there: an instance joins an affinity group only where a member is seen.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Iterable, List, Mapping, Optional

from ..model import fleet_hints
from ..model.errors import BerthError
from ..model.lifecycle import CLAIM
from ..model.messages import Document
from ..model.request_spec import ServerGroup
from . import silence
from .errors import GroupMembersUnknown, GroupPolicyViolation
from .fleet import Fleet
from .plan import CLAIMING, Instance, fail

AFFINITY, ANTI_AFFINITY = "affinity", "anti-affinity"


def others(spec: Document, records: Iterable[Mapping[str, Any]]) -> List[Mapping[str, Any]]:
    """The records of the other members of the request's server group, in whatever role."""
    group = spec.get("group")
    return [
        record
        for record in records
        if group
        and record.get("group") in (group["name"], group.get("uuid"))
        and record["project_id"] == spec["project_id"]
        and record["uuid"] != spec["uuid"]
    ]


def elsewhere(spec: Document, host: str, held: Mapping[str, Iterable[Mapping[str, Any]]]) -> List[str]:
    """The hosts other than ``host`` with members of the request's affinity group. ``held``: host -> its records."""
    if not spans_hosts(spec):
        return []
    return sorted(name for name, records in held.items() if name != host and others(spec, records))


def spans_hosts(spec: Document) -> bool:
    """Whether the policy of the request's group can only be checked by reading all hosts."""
    return (spec.get("group") or {}).get("policy") == AFFINITY


def violation(spec: Document, hosts: List[str]) -> Optional[GroupPolicyViolation]:
    """The error if ``hosts`` hold members too, or None if there are none."""
    if not hosts:
        return None
    name = spec["group"]["name"]
    return GroupPolicyViolation(
        "server group %s has members on %s too" % (name, ", ".join(hosts)), hint=fleet_hints.one_host_for_group(name)
    )


def broken_by(group: Document, members: Iterable[Mapping[str, Any]]) -> str:
    """Where the members, each with its ``host``, break the group's policy; empty if they keep it."""
    held = Counter(member["host"] for member in members)
    if group["policy"] == AFFINITY and len(held) > 1:
        return "on %s, not on one host" % ", ".join(sorted(held))
    most = ServerGroup(group).max_server_per_host
    full = ["%d on %s" % (number, host) for host, number in sorted(held.items()) if number > most]
    return "%s, not %d" % (", ".join(full), most) if group["policy"] == ANTI_AFFINITY and full else ""


def set_members(instances: Dict[str, Instance], fleet: Fleet) -> None:
    """Give each request the members of its server group, as the hosts report them."""
    for instance in instances.values():
        group = instance["spec"].get("group")
        if group:
            group["members"] = fleet.members(group, instance["project"])


def refuse_unseen(instances: Mapping[str, Instance], fleet: Fleet, silent: Mapping[str, str]) -> None:
    """Fail what would be created in an affinity group whose members may all be on a silent host."""
    held = [record for document in fleet.documents.values() for record in document["instances"]]
    records = [record for record in held if not record.get("foreign")]
    for instance in instances.values():
        if not instance.get("existing") and instance.get("state") in (None, CLAIMING):
            try:
                check_seen(instance, records, silent)
            except BerthError as error:
                fail(instance, error)


def check_seen(instance: Instance, records: Iterable[Mapping[str, Any]], silent: Mapping[str, str]) -> None:
    """Raise GroupMembersUnknown if no member of the instance's affinity group is seen, and a host is silent. ``records``: of
    the hosts that answer. A claim shows nothing: its run may not have seen the others either."""
    spec = instance["spec"]
    if silent and spans_hosts(spec) and all(record["role"] == CLAIM for record in others(spec, records)):
        hosts = sorted(silent)
        raise GroupMembersUnknown(
            "%s has to be on the host of server group %s, but its members may be on %s"
            % (instance["name"], spec["group"]["name"], " and on ".join(silence.describe(h, silent) for h in hosts)),
            hint=silence.hint(hosts, silent),
        )
