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

import re

from .errors import BerthError
from .safe_text import clean, is_safe

SCHEMA = 1
MOST = 1 << 50
MAX_CPU = 8191
INSTANCES_LIMIT = 10000
DEVICES_LIMIT = 10000
PARTS_LIMIT = 2000


class HostDocumentInvalid(BerthError):
    """A host state document that breaks its schema: the host is left out, the others go on (S11)."""

    retryable = True


def check(document, host=None, uuid=None):
    """The cleaned document. ``host``: the inventory name, for the error; ``uuid``: the one it must have, if known.

    Raises HostDocumentInvalid.
    """
    try:
        cleaned = _DOCUMENT(document)
        _check_whole(cleaned, uuid)
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
    return cleaned


class _Fault(Exception):
    """``path``: the keys that lead to the fault, the innermost first; put together only when it is needed."""

    def __init__(self, value, rule, *path):
        super().__init__(rule)
        self.value, self.rule, self.path = value, rule, list(path)

    def field(self):
        parts = ("[%d]" % key if type(key) is int else "." + _shorten(key) for key in reversed(self.path))
        return "".join(parts).lstrip(".") or "document"


def _shorten(key):
    return clean(key if type(key) is str else type(key).__name__, 64)


def _check_whole(document, uuid):
    if uuid is not None and document["uuid"] != uuid:
        raise _Fault(document["uuid"], "the uuid %s that this host had before" % uuid, "uuid")
    if document["num_instances"] != len(document["instances"]):
        raise _Fault(document["num_instances"], "the number of instances listed", "num_instances")
    if len({one["uuid"] for one in document["instances"]}) != len(document["instances"]):
        raise _Fault(document["instances"], "each uuid once", "instances")


def _show(value):
    """A short and harmless rendering of what a host sent."""
    if type(value) is str:
        return repr(clean(value, 60))
    if type(value) is int and value.bit_length() > 64:
        return "a number of %d bits" % value.bit_length()
    if type(value) in (int, float, bool, type(None)):
        return repr(value)
    if type(value) in (list, dict):
        return "%s of %d" % (type(value).__name__, len(value))
    return clean(type(value).__name__)


# Each check is a function value -> cleaned value. Types are compared exactly: bool is no number, and a
# subclass of str is not what json gives.


def _whole(low, high=MOST):
    rule = "a whole number from %d to %d" % (low, high)

    def check_whole(value):
        if type(value) is not int or not low <= value <= high:
            raise _Fault(value, rule)
        return value

    return check_whole


def _number(low, high):
    rule = "a number from %g to %g" % (low, high)

    def check_number(value):
        # NaN is not between any two numbers; a whole number may be too large for a float, but not for this
        if type(value) not in (int, float) or not low <= value <= high:
            raise _Fault(value, rule)
        return value

    return check_number


def _flag(value):
    if type(value) is not bool:
        raise _Fault(value, "true or false")
    return value


def _text(longest=255):
    rule = "one line of at most %d printable characters without template marks" % longest

    def check_text(value):
        if type(value) is not str or not is_safe(value, longest):
            raise _Fault(value, rule)
        return value

    return check_text


def _word(pattern, longest=255):
    match = re.compile(pattern + r"\Z", re.ASCII).match
    rule = "text like %s, at most %d long" % (pattern, longest)

    def check_word(value):
        if type(value) is not str or len(value) > longest or not match(value):
            raise _Fault(value, rule)
        return value

    return check_word


def _words(pattern, limit, longest=255):
    """A list of words; checked as one text, since hosts send hundreds of them."""
    match = re.compile(r"(?:(?:%s)\n)*\Z" % pattern, re.ASCII).match
    rule = "a list of at most %d texts like %s" % (limit, pattern)

    def check_words(value):
        if type(value) is not list or len(value) > limit or not set(map(type, value)) <= {str}:
            raise _Fault(value, rule)
        if value and max(map(len, value)) > longest:
            raise _Fault(value, rule)
        joined = "".join([one + "\n" for one in value])
        if not match(joined) or joined.count("\n") != len(value):
            raise _Fault(value, rule)
        return list(value)

    return check_words


def _choice(*choices):
    def check_choice(value):
        if type(value) is not str or value not in choices:
            raise _Fault(value, "one of " + ", ".join(choices))
        return value

    return check_choice


def _or_null(check_value):
    def check_optional(value):
        return None if value is None else check_value(value)

    return check_optional


def _cpus(value):
    if (
        type(value) is not list
        or len(value) > MAX_CPU + 1
        or not set(map(type, value)) <= {int}
        or (value and not (min(value) >= 0 and max(value) <= MAX_CPU))
    ):
        raise _Fault(value, "a list of CPU numbers from 0 to %d" % MAX_CPU)
    return list(value)


def _list(check_item, limit):
    rule = "a list of at most %d items" % limit

    def check_list(value):
        if type(value) is not list or len(value) > limit:
            raise _Fault(value, rule)
        cleaned = []
        try:
            for item in value:
                cleaned.append(check_item(item))
        except _Fault as fault:
            fault.path.append(len(cleaned))
            raise
        return cleaned

    return check_list


def _map(check_key, check_value, limit):
    def check_map(value):
        if type(value) is not dict or len(value) > limit:
            raise _Fault(value, "an object of at most %d fields" % limit)
        cleaned = {}
        for key, item in value.items():
            try:
                cleaned[check_key(key)] = check_value(item)
            except _Fault as fault:
                fault.path.append(key)
                raise
        return cleaned

    return check_map


def _object(fields, optional=()):
    """An object with these fields; those that are not known are dropped, unknown meaning can do no harm."""
    pairs = tuple(fields.items())

    def check_object(value):
        if type(value) is not dict:
            raise _Fault(value, "an object")
        cleaned = {}
        name = None
        try:
            for name, check_value in pairs:
                if name in value:
                    cleaned[name] = check_value(value[name])
                elif name not in optional:
                    raise _Fault(None, "this field is required")
        except _Fault as fault:
            fault.path.append(name)
            raise
        return cleaned

    return check_object


def _anything(value):
    """Plain data of unknown shape: numbers of a sane size, safe text, at most PARTS_LIMIT parts, six levels deep."""
    left = [PARTS_LIMIT]

    def copy(part, depth):
        left[0] -= 1
        kind = type(part)
        if left[0] >= 0 and depth <= 6:
            if kind is str and is_safe(part):
                return part
            if part is None or kind is bool or (kind in (int, float) and -MOST <= part <= MOST):
                return part
            if kind is list and len(part) <= PARTS_LIMIT:
                return [copy(item, depth + 1) for item in part]
            if (
                kind is dict
                and len(part) <= PARTS_LIMIT
                and all(type(key) is str and is_safe(key, 255) for key in part)
            ):
                return {key: copy(item, depth + 1) for key, item in part.items()}
        raise _Fault(part, "plain data of at most %d parts, with safe texts and numbers" % PARTS_LIMIT)

    return copy(value, 0)


_UUID = _word(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", 36)
_NAME = _word(r"[A-Za-z0-9_][A-Za-z0-9._-]*", 253)
_IDENTIFIER = r"[A-Za-z0-9][A-Za-z0-9._+-]*"
_ADDRESS = _word(r"[0-9A-Fa-f:.]+", 45)
_HEX = _word(r"[0-9a-f]{4}", 4)
_PCI = _word(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", 12)
_DEV_TYPE = _choice("type-PCI", "type-PF", "type-VF")
_COUNT = _whole(0, 1 << 40)
_SIZE = _whole(0, 1 << 40)
_LEFT = _whole(-(1 << 40), 1 << 40)
_NODE = _or_null(_whole(0, 4095))
_RATIO = _number(0.0, 1000.0)
_STATE = _or_null(_word(r"[a-z][a-z0-9_-]*", 64))

_FLAVOR_SIZES = _object(
    {"name": _text(), "vcpus": _COUNT, "memory_mb": _SIZE, "root_gb": _SIZE, "ephemeral_gb": _SIZE, "swap": _SIZE},
    optional=("ephemeral_gb", "swap"),
)


def _flavor(value):
    """The flavor snapshot: known sizes are numbers, whatever else it has is kept as plain data."""
    sizes = _FLAVOR_SIZES(value)
    return {**_anything(value), **sizes}


def _mapping(value):
    if type(value) is not dict:
        raise _Fault(value, "an object")
    return _anything(value)


def _supported(value):
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

_INSTANCE = _object(
    {
        "uuid": _UUID,
        "name": _text(),
        "project_id": _or_null(_text()),
        "flavor": _or_null(_flavor),
        "group": _or_null(_text()),
        "role": _or_null(_choice("OWN", "IN", "OUT", "CLAIM")),
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
        "image_props": _mapping,
        "numa_topology": _object(
            {
                "cells": _list(_CELL_OF_INSTANCE, 1024),
                "emulator_threads_policy": _or_null(_choice("share", "isolate")),
            }
        ),
    },
    optional=("numa_topology",),
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
        "network_metadata": _or_null(_mapping),
        "distances": _map(_word(r"[0-9]{1,4}"), _whole(0, 255), 4096),
    },
    optional=("distances",),
)

_DOCUMENT = _object(
    {
        "schema": _whole(SCHEMA, SCHEMA),
        "collection_version": _word(r"[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+-]*", 64),
        "prepared": _flag,
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
        "cpu_info": _mapping,
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
        "pools": _map(
            _text(),
            _object(
                {
                    "path": _or_null(_text()),
                    "type": _word(r"[a-z][a-z-]*", 32),
                    "capacity_gb": _SIZE,
                    "free_gb": _SIZE,
                    "promised_gb": _SIZE,
                }
            ),
            1000,
        ),
        "instances": _list(_INSTANCE, INSTANCES_LIMIT),
        "failed_instances": _list(_UUID, INSTANCES_LIMIT),
        "warnings": _list(_text(1024), 100),
    },
    optional=("mdev_types", "failed_instances"),
)
