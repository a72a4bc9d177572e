# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's check of a host's facts: a host that lies must not gain control of the controller.

Works on plain objects, as json reads them. The result is a new document with known fields only; the first fault raises
a HostDocumentInvalid that names field and host. Sizes are limited before anything is examined closely.
"""

# True is an int to isinstance, and a subclass may behave in any way: here the exact type counts.
# pylint: disable=unidiomatic-typecheck

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

from . import guest_settings, volumes
from .cpu_list import MAX_CPU
from .errors import BerthError
from .lifecycle import ROLES
from .messages import Document
from .schema import CUSTOM
from .shape import (
    Check,
    Fault,
    address,
    anything,
    choice,
    cpus,
    flag,
    generation,
    list_of,
    map_of,
    mapping,
    number,
    object_of,
    or_null,
    show,
    state,
    text,
    uuid,
    whole,
    word,
    words,
)
from .vgpus import DEVICES_LIMIT

SCHEMA = 1
INSTANCES_LIMIT = 10000


class HostDocumentInvalid(BerthError):
    """The state document of a host breaks its schema. The host is left out, the run continues with the others."""

    retryable = True


class Checked(NamedTuple):
    """One that check() or with_others() has returned, and nobody has changed since. No host can send one."""

    document: Document


def check(document: Any, host: Optional[str] = None, uuid: Optional[str] = None) -> Document:
    """The cleaned document. ``host``: the inventory name, for the error; ``uuid``: the one it must have, if known.

    Raises HostDocumentInvalid.
    """
    if isinstance(document, Checked):
        return document.document
    try:
        return shape(document, uuid)
    except Fault as fault:
        name = "host %s" % host if host else "the host"
        field = fault.field()
        raise HostDocumentInvalid(
            "%s: %s is not valid in its facts" % (name, field),
            field=field,
            value=show(fault.value),
            rule=fault.rule,
            host=host,
        ) from None


def with_others(document: Document, now: Document) -> Any:
    """A Checked of what a checked ``document`` is ``now``, with other instances and their counts: only those are checked. If they
    are wrong, ``now``, of which check() tells what."""
    same = {id(each) for each in document["instances"]}
    try:
        return Checked(
            {**now, "instances": [each if id(each) in same else _instance(each) for each in now["instances"]]}
        )
    except Fault:
        return now


def shape(document: Any, uuid: Optional[str] = None) -> Document:
    """The same check for reply_shapes.py: raises Fault."""
    cleaned = _DOCUMENT(document)
    _check_whole(cleaned, uuid)
    return cleaned


def _check_whole(document: Document, uuid: Optional[str]) -> None:
    if uuid is not None and document["uuid"] != uuid:
        raise Fault(document["uuid"], "the uuid %s that this host had before" % uuid, "uuid")
    if document["num_instances"] != len(document["instances"]):
        raise Fault(document["num_instances"], "the number of instances listed", "num_instances")
    if len({instance["uuid"] for instance in document["instances"]}) != len(document["instances"]):
        raise Fault(document["instances"], "each uuid once", "instances")
    parents = [vgpu["parent"] for vgpu in document.get("vgpus") or ()]
    if len(set(parents)) != len(parents):
        raise Fault(document["vgpus"], "each parent once", "vgpus")


_NAME = word(r"[A-Za-z0-9_][A-Za-z0-9._-]*", 253)
_IDENTIFIER = r"[A-Za-z0-9][A-Za-z0-9._+-]*"
_HEX = word(r"[0-9a-f]{4}", 4)
_PCI = word(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", 12)
_DEV_TYPE = choice("type-PCI", "type-PF", "type-VF")
_COUNT = whole(0, 1 << 40)
_SIZE = whole(0, 1 << 40)
_LEFT = whole(-(1 << 40), 1 << 40)
_NODE = or_null(whole(0, 4095))
_RATIO = number(0.0, 1000.0)
_WEEK = 7 * 24 * 3600  # failed builds fade within hours

_MAPPING = mapping(anything)

_FLAVOR_SIZES = object_of(
    {"name": text(), "vcpus": _COUNT, "memory_mb": _SIZE, "root_gb": _SIZE, "ephemeral_gb": _SIZE, "swap": _SIZE},
    optional=("ephemeral_gb", "swap"),
)


def flavor(value: Any) -> Document:
    """The flavor snapshot: known sizes are numbers, whatever else it has is kept as plain data."""
    sizes = _FLAVOR_SIZES(value)
    return {**anything(value), **sizes}


def _supported(value: Any) -> List[str]:
    parts = _THREE_WORDS(value)
    if len(parts) != 3:
        raise Fault(value, "architecture, hypervisor type and VM mode")
    return parts


_THREE_WORDS = words(_IDENTIFIER, 3, 64)

_CELL_OF_INSTANCE = object_of(
    {
        "id": whole(0, 4095),
        "cpuset": cpus,
        "pcpuset": cpus,
        "memory_mb": _SIZE,
        "pagesize": or_null(whole(-3, 1 << 40)),
        "cpu_policy": or_null(choice("shared", "dedicated", "mixed")),
        "cpu_thread_policy": or_null(choice("prefer", "isolate", "require")),
        "cpu_pinning": map_of(word(r"[0-9]{1,4}"), whole(0, MAX_CPU), MAX_CPU + 1),
        "cpuset_reserved": cpus,
    }
)

instance_topology = object_of(
    {
        "cells": list_of(_CELL_OF_INSTANCE, 1024),
        "emulator_threads_policy": or_null(choice("share", "isolate")),
    }
)


def _difference(value: Any) -> List[str]:
    """[part, what the record says, what the guest in libvirt has]"""
    parts = _THREE_TEXTS(value)
    if len(parts) != 3:
        raise Fault(value, "part, record and guest")
    return parts


_THREE_TEXTS = list_of(text(120), 3)
_IN_KERNEL = object_of({"nic": text(120), "code": text(64), "said": text(240)})
domain_differs = object_of(
    {"now": list_of(_difference, 20), "next_start": list_of(_difference, 20), "kernel": list_of(_IN_KERNEL, 20)},
    optional=("now", "next_start", "kernel"),
)

shelved = object_of({"vcpus": _COUNT, "memory_mb": _SIZE})  # what a shelved instance counts for in a quota
lets_in = map_of(uuid, list_of(text(), 1000), 10000)  # as model/admitted_members.py reports it

_OF_INSTANCE: Dict[str, Check] = {
    "uuid": uuid,
    "name": text(),
    "project_id": or_null(text()),
    "flavor": or_null(flavor),
    "group": or_null(text()),
    "role": or_null(choice(*ROLES)),
    "phase": state,
    "vm_state": state,
    "task_state": state,
    "power_state": choice("nostate", "running", "paused", "shutdown", "crashed", "suspended"),
    "foreign": flag,
    "vcpus": _COUNT,
    "pcpus": _COUNT,
    "memory_mb": _SIZE,
    "disk_gb": _SIZE,
    "pool": or_null(text()),
    "image_props": _MAPPING,
}
# Only of some instances, or of hosts of this version.
_MAYBE_OF_INSTANCE: Dict[str, Check] = {
    "generation": or_null(generation),
    "managed": flag,
    "damaged": text(1024),
    "locked": text(1024),
    "availability_zone": or_null(text()),
    "nics": list_of(text(), 1000),
    "lets_in": lets_in,
    "numa_topology": instance_topology,
    "disks": map_of(text(), _COUNT, 1000),
    "request_digests": map_of(word("[a-z_]+", 32), word("[0-9a-f]{12}", 12), 20),
    "unfiltered": list_of(text(17), 1000),
    "domain_differs": domain_differs,
    "disks_missing": list_of(text(4096), 1000),
    "batch_id": text(),
    "home": uuid,
    "adopted": text(),
    "own_name": text(),
    "shelved": shelved,
    "access_ips": list_of(text(), 2),
    "moved_to": object_of({"op": word(r"[A-Za-z0-9_.:-]+", 64), "host_uuid": uuid}),
}
_INSTANCE = object_of({**_OF_INSTANCE, **_MAYBE_OF_INSTANCE}, optional=_MAYBE_OF_INSTANCE)


def _instance(value: Any) -> Document:
    instance = _INSTANCE(value)
    return instance if instance["foreign"] else volumes.instance(instance, instance["project_id"] or "")


_FAILED = object_of({"uuid": uuid, "name": text(), "project_id": text(), "code": text(64), "message": text(1024)})


def _failed(value: Any) -> Document:
    failure = _FAILED(value)
    return volumes.instance(failure, failure["project_id"])


_VOLUME = object_of(
    {
        "uuid": uuid,
        "name": text(),
        "project_id": text(),
        "size_gb": _SIZE,
        "pool": text(),
        "instance": or_null(object_of({"uuid": uuid, "name": text()})),
        "role": choice("OWN", "IN", "OUT", "CLAIM"),
        "phase": state,
        "grows_from_gb": _SIZE,
        "changed_at": or_null(text(40)),
    },
    optional=("changed_at", "grows_from_gb"),
)

_CELL = object_of(
    {
        "id": whole(0, 4095),
        "cpuset": cpus,
        "pcpuset": cpus,
        "memory_mb": _SIZE,
        "cpu_usage": _COUNT,
        "memory_usage": _SIZE,
        "pinned_cpus": cpus,
        "siblings": list_of(cpus, MAX_CPU + 1),
        "socket": _NODE,
        "mempages": list_of(
            object_of({"size_kb": whole(1, 1 << 40), "total": _COUNT, "used": _COUNT, "reserved": _COUNT}), 16
        ),
        "network_metadata": or_null(_MAPPING),
        "distances": map_of(word(r"[0-9]{1,4}"), whole(0, 255), 4096),
    },
    optional=("distances",),
)

DRAINED = object_of({"reason": text(1024), "by": text(255), "at": text(40), "rebooted": flag}, optional=("rebooted",))
REGISTRY = object_of({"kind": word("[a-z]+", 20), "incarnation": word(_IDENTIFIER, 64), "revision": whole(0)})
# The facts of a host: name -> its check. module host_facts documents each, with a sample.
FACTS: Dict[str, Check] = {
    "schema": whole(SCHEMA, SCHEMA),
    "collection_version": word(r"[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+-]*", 64),
    "prepared": flag,
    "uuid": uuid,
    "generation": whole(0),
    "host": _NAME,
    "node": _NAME,
    "hypervisor_hostname": _NAME,
    "hypervisor_type": word(_IDENTIFIER, 64),
    "hypervisor_version": whole(0, 1 << 40),
    "libvirt_version": whole(0, 1 << 40),
    "host_ip": or_null(address),
    "vcpus": whole(0, MAX_CPU + 1),
    "pcpus": whole(0, MAX_CPU + 1),
    "vcpus_used": _COUNT,
    "pcpus_used": _COUNT,
    "memory_mb": _SIZE,
    "memory_mb_used": _SIZE,
    "free_ram_mb": _LEFT,
    "local_gb": _SIZE,
    "local_gb_used": _SIZE,
    "free_disk_gb": _LEFT,
    "disk_available_least": _LEFT,
    "reserved_host_cpus": _COUNT,
    "reserved_host_memory_mb": _SIZE,
    "reserved_host_disk_gb": _SIZE,
    "cpu_allocation_ratio": _RATIO,
    "ram_allocation_ratio": _RATIO,
    "disk_allocation_ratio": _RATIO,
    "service": object_of({"disabled": flag, "disabled_reason": text(1024), "up": flag}),
    "num_instances": whole(0, INSTANCES_LIMIT),
    "num_io_ops": whole(0, INSTANCES_LIMIT),
    "failed_builds": _COUNT,
    "domain_types": words("kvm|qemu", 2),
    "machine_types": words(_IDENTIFIER, 1000, 64),
    "supported_instances": list_of(_supported, 200),
    "cpu_info": _MAPPING,
    "traits": words("[A-Z0-9_]+", 2000),
    "metrics": list_of(
        object_of({"name": word(r"[A-Za-z0-9][A-Za-z0-9._-]*", 64), "value": number(-float(1 << 62), float(1 << 62))}),
        200,
    ),
    "numa_topology": or_null(object_of({"cells": list_of(_CELL, 1024)})),
    "pci_devices": list_of(
        object_of(
            {
                "address": _PCI,
                "vendor_id": _HEX,
                "product_id": _HEX,
                "numa_node": _NODE,
                "dev_type": _DEV_TYPE,
                "iommu_group": or_null(_COUNT),
                "parent": or_null(_PCI),
                "used_by": or_null(uuid),
                "available": flag,
            }
        ),
        DEVICES_LIMIT,
    ),
    "pci_pools": list_of(
        object_of({"vendor_id": _HEX, "product_id": _HEX, "numa_node": _NODE, "dev_type": _DEV_TYPE, "count": _COUNT}),
        DEVICES_LIMIT,
    ),
    "pools": map_of(
        text(),
        object_of(
            {
                "path": or_null(text()),
                "type": word(r"[a-z][a-z-]*", 32),
                "storage": text(),
                "capacity_gb": _SIZE,
                "free_gb": _SIZE,
                "free_mb": _SIZE,
                "images_mb": _SIZE,
                "promised_gb": _SIZE,
                "owed_gb": _SIZE,
            },
            optional=("storage", "free_mb", "images_mb", "owed_gb"),
        ),
        1000,
    ),
    "instances": list_of(_instance, INSTANCES_LIMIT),
    "warnings": list_of(text(1024), 100),
}
# Facts that not every host has, or none of an earlier version.
MAYBE: Dict[str, Check] = {
    "state": object_of({"id": or_null(word("[0-9a-f]{32}", 32)), "serial": whole(0), "fault": or_null(text(1024))}),
    "drained": DRAINED,
    "registry": REGISTRY,
    "failed_build_age_s": whole(0, _WEEK),
    "guest_cpu": object_of({"model": or_null(word(_IDENTIFIER, 64)), "usable": words(_IDENTIFIER, 1000, 64)}),
    "firmware": list_of(
        object_of(
            {
                "machines": list_of(text(64), 100),
                "secure_boot": flag,
                "variables": word(guest_settings.VARIABLES, 64),
            }
        ),
        100,
    ),
    "mdev_types": list_of(
        object_of({"parent": _PCI, "type": _NAME, "name": or_null(text()), "available": _COUNT}), DEVICES_LIMIT
    ),
    "vgpus": list_of(object_of({"parent": _PCI, "type": _NAME, "total": _COUNT, "used": _COUNT}), DEVICES_LIMIT),
    "encrypted_guests": object_of({"total": _COUNT, "used": _COUNT}),
    "custom_resources": map_of(word(CUSTOM, 255), object_of({"total": _COUNT, "used": _COUNT}), 1000),
    "stats": map_of(word(r"[A-Za-z0-9_.-]+", 64), text(), 1000),
    "bridges": list_of(text(15), DEVICES_LIMIT),
    "bridge_links": map_of(text(15), object_of({"mtu": whole(0, 1 << 31), "uplink": flag}), DEVICES_LIMIT),
    "networks": list_of(text(), DEVICES_LIMIT),
    "network_filters": list_of(text(), DEVICES_LIMIT),
    "ovs_bridges": list_of(text(15), DEVICES_LIMIT),
    "vlan_bridges": list_of(text(15), DEVICES_LIMIT),
    "packet_filters": words("addresses|ports", 2),
    "pool": text(64),
    "failed_instances": list_of(_failed, INSTANCES_LIMIT),
    "volumes": list_of(lambda value: volumes.volume(_VOLUME(value)), INSTANCES_LIMIT),
    "damaged_volumes": map_of(uuid, text(1024), INSTANCES_LIMIT),
}
_DOCUMENT = object_of({**FACTS, **MAYBE}, optional=MAYBE)
