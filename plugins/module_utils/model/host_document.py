# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's check of what a host says of itself: a host may lie, and must not own the controller by it.

Works on plain objects, as json reads them. What passes is a new document with known fields only; the first fault is a
HostDocumentInvalid that names field and host. Sizes are limited before anything is looked at closely.
"""

# True is an int to isinstance, and a subclass may behave in any way: here the exact type counts.
# pylint: disable=unidiomatic-typecheck

from __future__ import annotations

from typing import Any, List, Optional

from .cpu_list import MAX_CPU
from .errors import BerthError
from .messages import Document
from .shape import Fault as _Fault
from .shape import address as _ADDRESS
from .shape import anything as _anything
from .shape import choice as _choice
from .shape import cpus as _cpus
from .shape import flag as _flag
from .shape import generation as _generation
from .shape import list_of as _list
from .shape import map_of as _map
from .shape import mapping
from .shape import number as _number
from .shape import object_of as _object
from .shape import or_null as _or_null
from .shape import show as _show
from .shape import state as _STATE
from .shape import text as _text
from .shape import uuid as _UUID
from .shape import whole as _whole
from .shape import word as _word
from .shape import words as _words

SCHEMA = 1
INSTANCES_LIMIT = 10000
DEVICES_LIMIT = 10000


class HostDocumentInvalid(BerthError):
    """A host state document that breaks its schema: the host is left out, the others go on."""

    retryable = True


def check(document: Any, host: Optional[str] = None, uuid: Optional[str] = None) -> Document:
    """The cleaned document. ``host``: the inventory name, for the error; ``uuid``: the one it must have, if known.

    Raises HostDocumentInvalid.
    """
    try:
        return shape(document, uuid)
    except _Fault as fault:
        name = "host %s" % host if host else "the host"
        field = fault.field()
        raise HostDocumentInvalid(
            "%s: %s is not valid in its facts" % (name, field),
            field=field,
            value=_show(fault.value),
            rule=fault.rule,
            host=host,
        ) from None


def shape(document: Any, uuid: Optional[str] = None) -> Document:
    """The same check for reply_shapes.py: raises Fault."""
    cleaned = _DOCUMENT(document)
    _check_whole(cleaned, uuid)
    return cleaned


def _check_whole(document: Document, uuid: Optional[str]) -> None:
    if uuid is not None and document["uuid"] != uuid:
        raise _Fault(document["uuid"], "the uuid %s that this host had before" % uuid, "uuid")
    if document["num_instances"] != len(document["instances"]):
        raise _Fault(document["num_instances"], "the number of instances listed", "num_instances")
    if len({instance["uuid"] for instance in document["instances"]}) != len(document["instances"]):
        raise _Fault(document["instances"], "each uuid once", "instances")


_NAME = _word(r"[A-Za-z0-9_][A-Za-z0-9._-]*", 253)
_IDENTIFIER = r"[A-Za-z0-9][A-Za-z0-9._+-]*"
_HEX = _word(r"[0-9a-f]{4}", 4)
_PCI = _word(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", 12)
_DEV_TYPE = _choice("type-PCI", "type-PF", "type-VF")
_COUNT = _whole(0, 1 << 40)
_SIZE = _whole(0, 1 << 40)
_LEFT = _whole(-(1 << 40), 1 << 40)
_NODE = _or_null(_whole(0, 4095))
_RATIO = _number(0.0, 1000.0)

_MAPPING = mapping(_anything)

_FLAVOR_SIZES = _object(
    {"name": _text(), "vcpus": _COUNT, "memory_mb": _SIZE, "root_gb": _SIZE, "ephemeral_gb": _SIZE, "swap": _SIZE},
    optional=("ephemeral_gb", "swap"),
)


def flavor(value: Any) -> Document:
    """The flavor snapshot: known sizes are numbers, whatever else it has is kept as plain data."""
    sizes = _FLAVOR_SIZES(value)
    return {**_anything(value), **sizes}


def _supported(value: Any) -> List[str]:
    words = _THREE_WORDS(value)
    if len(words) != 3:
        raise _Fault(value, "architecture, hypervisor type and VM mode")
    return words


_THREE_WORDS = _words(_IDENTIFIER, 3, 64)

_CELL_OF_INSTANCE = _object(
    {
        "id": _whole(0, 4095),
        "cpuset": _cpus,
        "pcpuset": _cpus,
        "memory_mb": _SIZE,
        "pagesize": _or_null(_whole(-3, 1 << 40)),
        "cpu_policy": _or_null(_choice("shared", "dedicated", "mixed")),
        "cpu_thread_policy": _or_null(_choice("prefer", "isolate", "require")),
        "cpu_pinning": _map(_word(r"[0-9]{1,4}"), _whole(0, MAX_CPU), MAX_CPU + 1),
        "cpuset_reserved": _cpus,
    }
)

instance_topology = _object(
    {
        "cells": _list(_CELL_OF_INSTANCE, 1024),
        "emulator_threads_policy": _or_null(_choice("share", "isolate")),
    }
)

_INSTANCE = _object(
    {
        "uuid": _UUID,
        "name": _text(),
        "project_id": _or_null(_text()),
        "flavor": _or_null(flavor),
        "group": _or_null(_text()),
        "role": _or_null(_choice("OWN", "IN", "OUT", "CLAIM")),
        "generation": _or_null(_generation),
        "managed": _flag,
        "phase": _STATE,
        "vm_state": _STATE,
        "task_state": _STATE,
        "power_state": _choice("nostate", "running", "paused", "shutdown", "crashed", "suspended"),
        "foreign": _flag,
        "vcpus": _COUNT,
        "pcpus": _COUNT,
        "memory_mb": _SIZE,
        "disk_gb": _SIZE,
        "pool": _or_null(_text()),
        "image_props": _MAPPING,
        "nics": _list(_text(), 1000),
        "numa_topology": instance_topology,
    },
    optional=("numa_topology", "nics", "generation", "managed"),
)

_CELL = _object(
    {
        "id": _whole(0, 4095),
        "cpuset": _cpus,
        "pcpuset": _cpus,
        "memory_mb": _SIZE,
        "cpu_usage": _COUNT,
        "memory_usage": _SIZE,
        "pinned_cpus": _cpus,
        "siblings": _list(_cpus, MAX_CPU + 1),
        "socket": _NODE,
        "mempages": _list(
            _object({"size_kb": _whole(1, 1 << 40), "total": _COUNT, "used": _COUNT, "reserved": _COUNT}), 16
        ),
        "network_metadata": _or_null(_MAPPING),
        "distances": _map(_word(r"[0-9]{1,4}"), _whole(0, 255), 4096),
    },
    optional=("distances",),
)

_DOCUMENT = _object(
    {
        "schema": _whole(SCHEMA, SCHEMA),
        "collection_version": _word(r"[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+-]*", 64),
        "prepared": _flag,
        "state": _object(
            {"id": _or_null(_word("[0-9a-f]{32}", 32)), "serial": _whole(0), "fault": _or_null(_text(1024))}
        ),
        "uuid": _UUID,
        "generation": _whole(0),
        "host": _NAME,
        "node": _NAME,
        "hypervisor_hostname": _NAME,
        "hypervisor_type": _word(_IDENTIFIER, 64),
        "hypervisor_version": _whole(0, 1 << 40),
        "libvirt_version": _whole(0, 1 << 40),
        "host_ip": _or_null(_ADDRESS),
        "vcpus": _whole(0, MAX_CPU + 1),
        "pcpus": _whole(0, MAX_CPU + 1),
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
        "service": _object({"disabled": _flag, "disabled_reason": _text(), "up": _flag}),
        "num_instances": _whole(0, INSTANCES_LIMIT),
        "num_io_ops": _whole(0, INSTANCES_LIMIT),
        "failed_builds": _COUNT,
        "domain_types": _words("kvm|qemu", 2),
        "machine_types": _words(_IDENTIFIER, 1000, 64),
        "supported_instances": _list(_supported, 200),
        "cpu_info": _MAPPING,
        "traits": _words("[A-Z0-9_]+", 2000),
        "metrics": _list(
            _object(
                {"name": _word(r"[A-Za-z0-9][A-Za-z0-9._-]*", 64), "value": _number(-float(1 << 62), float(1 << 62))}
            ),
            200,
        ),
        "numa_topology": _or_null(_object({"cells": _list(_CELL, 1024)})),
        "pci_devices": _list(
            _object(
                {
                    "address": _PCI,
                    "vendor_id": _HEX,
                    "product_id": _HEX,
                    "numa_node": _NODE,
                    "dev_type": _DEV_TYPE,
                    "iommu_group": _or_null(_COUNT),
                    "parent": _or_null(_PCI),
                    "used_by": _or_null(_UUID),
                    "available": _flag,
                }
            ),
            DEVICES_LIMIT,
        ),
        "pci_pools": _list(
            _object(
                {"vendor_id": _HEX, "product_id": _HEX, "numa_node": _NODE, "dev_type": _DEV_TYPE, "count": _COUNT}
            ),
            DEVICES_LIMIT,
        ),
        "mdev_types": _list(
            _object({"parent": _PCI, "type": _NAME, "name": _or_null(_text()), "available": _COUNT}), DEVICES_LIMIT
        ),
        "bridges": _list(_text(15), DEVICES_LIMIT),
        "networks": _list(_text(), DEVICES_LIMIT),
        "network_filters": _list(_text(), DEVICES_LIMIT),
        "pool": _text(64),
        "pools": _map(
            _text(),
            _object(
                {
                    "path": _or_null(_text()),
                    "type": _word(r"[a-z][a-z-]*", 32),
                    "storage": _text(),
                    "capacity_gb": _SIZE,
                    "free_gb": _SIZE,
                    "promised_gb": _SIZE,
                },
                optional=("storage",),
            ),
            1000,
        ),
        "instances": _list(_INSTANCE, INSTANCES_LIMIT),
        "failed_instances": _list(_UUID, INSTANCES_LIMIT),
        "warnings": _list(_text(1024), 100),
    },
    optional=("mdev_types", "failed_instances", "bridges", "networks", "network_filters", "pool", "state"),
)
