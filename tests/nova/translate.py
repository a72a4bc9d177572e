# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nova's objects, and the stand-ins of its tests, as this collection's own values."""

from __future__ import annotations

from typing import Any
from unittest import mock

from ledger import CannotAsk
from nova import objects
from nova_options import from_nova

from ansible_collections.berth.kvm.plugins.module_utils.model.host_state import Aggregate, HostState, Metric
from ansible_collections.berth.kvm.plugins.module_utils.model.image import known_properties
from ansible_collections.berth.kvm.plugins.module_utils.model.request_spec import Flavor, RequestSpec
from ansible_collections.berth.kvm.plugins.module_utils.model.resources import (
    HostTopology,
    InstanceCell,
    InstanceTopology,
    pci_pools,
)
from ansible_collections.berth.kvm.plugins.module_utils.placement import registry
from ansible_collections.berth.kvm.plugins.module_utils.placement.options import OPTIONS, read_options

DECLARED = [part.options for kind in registry.FIELDS for part in registry.builtin(kind).values()]
KNOWN = frozenset(OPTIONS).union(*DECLARED)
GROUPS = ("filter_scheduler", "scheduler", "metrics", "compute")


def is_stand_in(value: Any) -> bool:
    return isinstance(value, mock.NonCallableMock) or type(value).__name__ == "_SentinelObject"


def get(thing: Any, name: str, default: Any = None) -> Any:
    """A field of an object of Nova's (which may be unset), of a dict, or of a stand-in; a mere stand-in is no value."""
    if isinstance(thing, dict):
        return thing.get(name, default)
    try:
        value = getattr(thing, name, default)
    except Exception:  # Nova's objects raise what they like for a field that is not set
        return default
    return default if is_stand_in(value) else value


# -- options
def options(conf: Any, **more: Any) -> dict[str, Any]:
    """The options of placement as Nova's configuration has them now."""
    found: dict[str, dict] = {}
    for group in GROUPS:
        found[group] = {name: getattr(conf[group], name) for name in conf[group] if name in KNOWN or group == "metrics"}
    return read_options({**from_nova(found), **more}, DECLARED)


# -- flavor and image
def flavor(given: Any) -> Flavor:
    return Flavor(flavor_document(given))


def flavor_document(given: Any) -> dict[str, Any]:
    if given is None or is_stand_in(given):
        raise CannotAsk("it has no flavor")
    sizes = {name: get(given, name) or 0 for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")}
    return {"name": get(given, "name") or "", **sizes, "extra_specs": dict(get(given, "extra_specs") or {})}


def properties(given: Any) -> dict[str, Any]:
    """The properties of an image as they were written, out of Nova's object for them."""
    if given is None or is_stand_in(given):
        return {}
    given = get(given, "properties", given)
    if isinstance(given, dict):
        return dict(given)
    if is_stand_in(given):
        return {}
    found: dict[str, Any] = {}
    for name in given.fields:
        if not given.obj_attr_is_set(name):
            continue
        value = getattr(given, name)
        if name == "traits_required":
            found.update(("trait:" + trait, "required") for trait in value)
        elif name in ("hw_numa_cpus", "hw_numa_mem"):
            found.update(
                ("%s.%d" % (name, at), ",".join(map(str, sorted(part))) if isinstance(part, set) else part)
                for at, part in enumerate(value or ())
            )
        elif value is not None:
            found[name] = value
    return found


def props(given: Any) -> dict[str, Any]:
    return known_properties(properties(given))


# -- NUMA
def host_topology(given: Any) -> HostTopology | None:
    return HostTopology.from_document({"cells": [host_cell(part) for part in get(given, "cells") or ()]})


def host_cell(given: Any) -> dict[str, Any]:
    network = get(given, "network_metadata")
    return {
        "id": given.id,
        "cpuset": list(get(given, "cpuset") or ()),
        "pcpuset": list(get(given, "pcpuset") or ()),
        "memory_mb": get(given, "memory") or 0,
        "cpu_usage": get(given, "cpu_usage") or 0,
        "memory_usage": get(given, "memory_usage") or 0,
        "pinned_cpus": list(get(given, "pinned_cpus") or ()),
        "siblings": [list(part) for part in get(given, "siblings") or ()],
        "socket": get(given, "socket"),
        "mempages": [
            {
                "size_kb": part.size_kb,
                "total": part.total,
                "used": get(part, "used") or 0,
                "reserved": get(part, "reserved") or 0,
            }
            for part in get(given, "mempages") or ()
        ],
        "network_metadata": network_metadata(network),
    }


def network_metadata(given: Any) -> dict[str, Any] | None:
    if not given:
        return None
    return {"physnets": sorted(get(given, "physnets") or ()), "tunneled": bool(get(given, "tunneled"))}


def instance_cell(given: Any) -> dict[str, Any]:
    return {
        "id": get(given, "id", -1),
        "cpuset": list(get(given, "cpuset") or ()),
        "pcpuset": list(get(given, "pcpuset") or ()),
        "memory_mb": get(given, "memory") or 0,
        "pagesize": get(given, "pagesize"),
        "cpu_policy": get(given, "cpu_policy"),
        "cpu_thread_policy": get(given, "cpu_thread_policy"),
        "cpu_pinning": dict(get(given, "cpu_pinning") or {}),
        "cpuset_reserved": list(get(given, "cpuset_reserved") or ()),
    }


def instance_topology(given: Any) -> InstanceTopology | None:
    if given is None or is_stand_in(given):
        return None
    cells = [InstanceCell(instance_cell(cell)) for cell in given.cells]
    return InstanceTopology(cells, get(given, "emulator_threads_policy"))


def limits(given: Any) -> dict[str, Any] | None:
    if not given:
        return None
    found = {name: get(given, name) for name in ("cpu_allocation_ratio", "ram_allocation_ratio")}
    network = network_metadata(get(given, "network_metadata"))
    return {**found, "network_metadata": network} if network else found


# -- PCI
def pools(given: Any) -> list[dict[str, Any]]:
    """The pools of a PciDeviceStats, or of a list of them."""
    if given is None or is_stand_in(given):
        return []
    parts = get(given, "pools", given)
    documents = [
        {name: value for name, value in dict(part).items() if name not in ("devices", "parent_ifname", "rp_uuid")}
        for part in parts
    ]
    return pci_pools(documents)


def pci_requests(given: Any) -> list[dict[str, Any]]:
    """The requests of an InstancePCIRequests, or of a list of them."""
    if given is None or is_stand_in(given):
        return []
    found = []
    for number, request in enumerate(get(given, "requests", given) or ()):
        spec = [{key: value for key, value in dict(each).items() if key != "parent_ifname"} for each in request.spec]
        found.append(
            {
                "alias_name": get(request, "alias_name") or "request-%d" % number,
                "count": request.count,
                "spec": spec,
                "numa_policy": get(request, "numa_policy") or "legacy",
                "request_id": get(request, "request_id"),
            }
        )
    return found


# -- hosts
STATE = (
    "total_usable_ram_mb", "total_usable_disk_gb", "disk_mb_used", "free_ram_mb", "free_disk_mb", "vcpus_total", "vcpus_used",
    "num_instances", "num_io_ops", "failed_builds", "hypervisor_type", "hypervisor_version", "hypervisor_hostname", "cpu_info",
    "cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio", "stats", "updated",
)  # fmt: skip


def host_state(given: Any, aggregates: list[Aggregate] | None = None) -> HostState:
    """A HostState of a test's, with those of its attributes that placement reads."""
    name = str(get(given, "host"))
    node = get(given, "nodename")
    state = HostState({"host": name, "node": str(node) if node else None})
    for attribute in STATE:
        value = get(given, attribute)
        if value is not None or attribute == "cpu_info":
            setattr(state, attribute, value)
    if get(given, "capabilities"):
        state.cpu_info = get(given, "capabilities")
    state.host_ip = str(get(given, "host_ip")) if get(given, "host_ip") else state.host_ip
    state.cell_uuid = get(given, "cell_uuid", state.cell_uuid)
    state.supported_instances = [list(part) for part in get(given, "supported_instances") or ()]
    state.metrics = [_metric(part) for part in get(given, "metrics") or ()]
    state.service = dict(get(given, "service") or {})
    state.limits = dict(get(given, "limits") or {})
    state.instances = {uuid: instance(uuid, part) for uuid, part in dict(get(given, "instances") or {}).items()}
    state.aggregates = (
        aggregates if aggregates is not None else [aggregate(part) for part in get(given, "aggregates") or ()]
    )
    topology = get(given, "numa_topology")
    state.numa_topology = host_topology(topology) if topology else None
    state.pci_stats = pools(get(given, "pci_stats"))
    return state


def _metric(given: Any) -> Metric:
    """Nova's metric has its value as it is compared already."""
    made = Metric({"name": get(given, "name"), "value": 0})
    made.value = get(given, "value")
    return made


def instance(uuid: str, given: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"uuid": uuid, "flavor": {"name": get(get(given, "flavor") or {}, "name") or ""}}
    try:
        image = objects.ImageMeta.from_instance(given)
    except Exception:  # as with get()
        return found
    return {**found, "image_props": properties(image)}


def aggregate(given: Any) -> Aggregate:
    uuid = get(given, "uuid")
    document = {"name": get(given, "name") or str(uuid or id(given)), "hosts": get(given, "hosts") or ()}
    return Aggregate({**document, "uuid": str(uuid) if uuid else None, "metadata": dict(get(given, "metadata") or {})})


# -- requests
def request(given: Any, **more: Any) -> RequestSpec:
    image = get(given, "image")
    group = get(given, "instance_group")
    destination = get(given, "requested_destination")
    uuid = get(given, "instance_uuid")
    network = get(given, "network_metadata")
    document = {
        "uuid": str(uuid) if uuid else "an-instance",
        "flavor": flavor_document(get(given, "flavor") or {}),
        "image": {
            "id": str(get(image, "id")),
            "disk_format": get(image, "disk_format"),
            "properties": properties(image),
        }
        if image
        else None,
        "project_id": get(given, "project_id"),
        "availability_zone": get(given, "availability_zone"),
        "is_bfv": bool(get(given, "is_bfv")),
        "scheduler_hints": dict(get(given, "scheduler_hints") or {}),
        "ignore_hosts": get(given, "ignore_hosts") or [],
        "force_hosts": get(given, "force_hosts") or [],
        "force_nodes": get(given, "force_nodes") or [],
        "network_metadata": network_metadata(network),
        "requested_destination": _destination(destination) if destination else None,
        **more,
    }
    retry = get(given, "retry")
    if retry:
        hosts = [[part.host, part.hypervisor_hostname] for part in get(retry, "hosts") or ()]
        document["retry"] = {"num_attempts": get(retry, "num_attempts"), "hosts": hosts}
    if group:
        document["group"] = {
            "uuid": str(get(group, "uuid") or "group"),
            "policy": get(group, "policy") or (get(group, "policies") or [None])[0],
            "rules": dict(get(group, "rules") or get(group, "_rules") or {}),
            "members": [str(part) for part in get(group, "members") or ()],
            "hosts": list(get(group, "hosts") or ()),
        }
    spec = RequestSpec.from_dict(document)
    spec.topology = instance_topology(get(given, "numa_topology"))
    spec.pci_requests = pci_requests(get(given, "pci_requests"))
    return spec


def _destination(given: Any) -> dict[str, Any]:
    cell = get(given, "cell")
    found = {"host": get(given, "host"), "node": get(given, "node")}
    return {
        **found,
        "cell": str(get(cell, "uuid")) if cell else None,
        "allow_cross_cell_move": get(given, "allow_cross_cell_move"),
    }
