# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is taken on a host, and all checks before more is taken: the same for create, a move here and a resize here."""

from __future__ import annotations

from ...model import address_clash, hints, host_hints, nics
from ...model.errors import InstanceExists
from ...model.host_state import HostState
from ...model.pools import DISK
from ...model.request_spec import RequestSpec
from ...placement import capacity
from ..errors import GroupPolicyViolated
from ..host import facts, mdev
from . import drained, registry_mark
from .volume_store import VolumeStore


class Ledger:
    """The host's state, from which claims are subtracted, and the instances on the host."""

    def __init__(self, host):
        host.require_member()
        registry_mark.check(host.store)
        self.host = host
        self.document = facts.collect(
            host.connection,
            host.settings,
            host.store.records(),
            host.store.state_dir,
            save_generation=False,
            volumes=VolumeStore.beside(host.store).sound(),
        )
        self.state = HostState.from_document(self.document)
        self.present = list(self.document["instances"])

    def allocate(self, request, limits):
        """Return what the request takes here. The caller holds the host's lock until that is written."""
        check_names(request.document, self.present)
        if request.document["uuid"] not in {instance["uuid"] for instance in self.present}:  # a resize here goes on
            drained.check_open(self.host.store.state_dir, request.document["name"])
        here = (self.present, " on this host")
        error = address_clash.clash(request.document, address_clash.add_let_in(address_clash.index(*here), *here))
        if error:
            raise error
        allocation = capacity.allocate(self.state, request, limits)
        mdev.check(self.host, request.document["name"], allocation)
        check_group(request.instance_group, request.document, self.present)
        return allocation

    def take(self, request, allocation):
        capacity.consume(self.state, request, allocation)
        spec = request.document
        self.present.append(
            {
                "uuid": spec["uuid"],
                "name": spec["name"],
                "project_id": spec["project_id"],
                "group": (spec.get("group") or {}).get("name"),
                "nics": nics.taken(spec.get("networks")),
                "foreign": False,
            }
        )


def check_group(group, spec, present):
    """The late check of a server group on this host. Records of every role count, including members that come or go."""
    if group is None or group.policy != "anti-affinity":
        return
    members = [
        instance["name"]
        for instance in present
        if instance["uuid"] != spec["uuid"]
        and not instance["foreign"]
        and (
            instance["uuid"] in group.members
            or (instance["group"] == group.name and instance["project_id"] == spec["project_id"])
        )
    ]
    if len(members) >= group.max_server_per_host:
        raise GroupPolicyViolated(
            "anti-affinity group %s has %d of at most %d members here: %s"
            % (group.name, len(members), group.max_server_per_host, ", ".join(sorted(members))),
            group=group.name,
            members=sorted(members),
        )


def check_names(spec, present):
    """Refuse the name or uuid of a domain that berth did not make."""
    for instance in present:
        if instance["foreign"] and (spec["uuid"] == instance["uuid"] or spec["name"] == instance["name"]):
            raise InstanceExists(
                "a domain that berth does not manage has the name or uuid of %s" % spec["name"],
                hint=hints.another_name(),
                domain=instance["name"],
            )


def with_more(resources, more):
    """Return what a record has set aside, with what allocate() returned."""
    amounts = dict(resources.get("resources") or {})
    for name, amount in more["resources"].items():
        amounts[name] = amounts.get(name, 0) + amount
    return dict(resources, disk_gb=resources.get("disk_gb", 0) + more["disk_gb"], resources=amounts)


def less_disk(resources, gb):
    """Return it with so many GiB less in its pool, never below 0."""
    amounts = {
        name: max(0, amount - gb) if name.split(":")[0] == DISK else amount
        for name, amount in (resources.get("resources") or {}).items()
    }
    return dict(resources, disk_gb=max(0, resources.get("disk_gb", 0) - gb), resources=amounts)


def allocate(host, record, more_gb):
    """Return what ``more_gb`` takes here, requested alone. The caller holds the host's lock until that is written. Raise
    ClaimFailed, which says what to do: the instance is here, so no other host is tried."""
    nothing = {"name": "", "vcpus": 0, "memory_mb": 0}
    data = [{"name": "more", "size_gb": more_gb, "bus": "virtio"}]
    request = RequestSpec({"uuid": record.uuid, "flavor": nothing, "pool": record.spec.get("pool"), "disks": data})
    try:
        return capacity.allocate(Ledger(host).state, request)
    except capacity.ClaimFailed as error:
        error.hint = host_hints.make_room_for_more(record.name, host.connection.getHostname())
        raise
