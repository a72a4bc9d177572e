# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI devices: aliases to requests, and requests to pools of like devices.

The rules are those of nova.pci.request and nova.pci.stats. A request is {alias_name, count, spec [{property: text}],
numa_policy, request_id}; a pool {vendor_id, product_id, numa_node, count, tag: text}.
"""

from __future__ import annotations

import re

from ..model.errors import InvalidInput
from ..model.guest_settings import is_true
from ..model.nics import nic_request
from ..model.unknown_names import did_you_mean
from .numa import PCI_POLICIES, pci_numa_policy

# Matched by Placement in Nova, not by the pools.
IGNORED_TAGS = ("resource_class", "traits", "rp_uuids", "rp_uuid")
DEVICE_TYPES = ("type-PCI", "type-PF", "type-VF")


def read_aliases(documents):
    """{name: (numa_policy, [spec])} of aliases [{name, vendor_id, product_id, device_type, numa_policy}]."""
    aliases = {}
    for number, document in enumerate(documents or ()):
        field = "pci_alias[%d]" % number
        spec = {key: str(value) for key, value in document.items() if value is not None}
        name = spec.pop("name", "").strip()
        policy = spec.pop("numa_policy", "") or "legacy"
        spec.pop("capability_type", None)
        if not name or "vendor_id" not in spec or "product_id" not in spec:
            raise InvalidInput(field, document, "needs name, vendor_id and product_id")
        if policy not in PCI_POLICIES:
            raise InvalidInput(field + ".numa_policy", policy, "one of " + ", ".join(PCI_POLICIES))
        kind = spec.pop("device_type", None)
        if kind is not None:
            if kind not in DEVICE_TYPES:
                raise InvalidInput(field + ".device_type", kind, "one of " + ", ".join(DEVICE_TYPES))
            spec["dev_type"] = kind
        if "live_migratable" in spec:
            spec["live_migratable"] = "true" if is_true(spec["live_migratable"]) else "false"
        known = aliases.setdefault(name, (policy, []))
        if known[0] != policy or (known[1] and known[1][0].get("dev_type") != spec.get("dev_type")):
            raise InvalidInput(field, name, "aliases of one name have one numa_policy and one device_type")
        known[1].append(spec)
    return aliases


def requests_from(flavor, props, aliases):
    """Return the PCI requests of a flavor's pci_passthrough:alias ("gpu:1,nic:2"); ``aliases`` from read_aliases()."""
    text = flavor.extra_specs.get("pci_passthrough:alias")
    policy = pci_numa_policy(flavor, props)
    requests = []
    for part in (text or "").split(",") if text else ():
        name, _colon, count = part.partition(":")
        name = name.strip()
        if not re.fullmatch("[0-9]+", count.strip()):
            raise InvalidInput("pci_passthrough:alias", text, "alias:count, separated by commas")
        if name not in aliases:
            raise InvalidInput("pci_passthrough:alias", name, "a defined PCI alias", hint=did_you_mean(name, aliases))
        numa_policy, spec = aliases[name]
        requests.append(
            {
                "alias_name": name,
                "count": int(count),
                "spec": [dict(properties) for properties in spec],
                "numa_policy": policy or numa_policy,
                "request_id": "%s-%d" % (name, len(requests)),
            }
        )
    return requests


def of_nics(nics, aliases):
    """Return one request for each NIC that is a function of a network card, under its alias."""
    requests = []
    for at, nic in enumerate(nics):
        if nic.get("type") != "direct":
            continue
        field, name = "berth_networks[%d].network" % at, nic["source"]
        if name not in aliases:
            raise InvalidInput(field, name, "a defined PCI alias", hint=did_you_mean(name, aliases))
        policy, spec = aliases[name]
        if any(properties.get("dev_type") != "type-VF" for properties in spec):
            raise InvalidInput(field, name, "a PCI alias of device_type type-VF")
        requests.append(
            {
                "alias_name": name,
                "count": 1,
                "spec": [dict(properties) for properties in spec],
                "numa_policy": policy,
                "request_id": nic_request(at),
            }
        )
    return requests


def _matches(pool, spec):
    for key, value in spec.items():
        have = pool.get(key)
        if isinstance(value, str):
            value = value.lower()
        if isinstance(have, str):
            have = have.lower()
        if have != value:
            return False
    return True


def _count(pools):
    return sum(pool["count"] for pool in pools)


def _near_cells(pools, request, cells, topology):
    """The pools that the request's NUMA policy allows next to these cells; the stricter choice if it suffices."""
    if not cells:
        return pools
    policy = request.get("numa_policy") or "legacy"
    ids = [cell.id for cell in cells]
    near = [pool for pool in pools if pool.get("numa_node") in ids]
    if policy == "required" or _count(near) >= request["count"]:
        return near
    if policy == "socket":
        host_cells = topology.cells if topology else []
        if any(cell.socket is None for cell in host_cells):
            return []
        sockets = {cell.socket for cell in host_cells if cell.id in ids}
        nodes = [cell.id for cell in host_cells if cell.socket in sockets]
        return [pool for pool in pools if pool.get("numa_node") in nodes]
    ids.append(None)
    near = [pool for pool in pools if pool.get("numa_node") in ids]
    if policy == "legacy" or _count(near) >= request["count"]:
        return near
    return sorted(pools, key=lambda pool: pool.get("numa_node") not in ids)


def matching(pools, request):
    """Return the pools of devices that the request asks for, on any NUMA node."""
    specs = [{key: value for key, value in spec.items() if key not in IGNORED_TAGS} for spec in request["spec"]]
    return [pool for pool in pools if any(_matches(pool, spec) for spec in specs)]


def usable_pools(pools, request, cells, topology):
    """Return the pools that can serve a request, in the order they are used; [] if they have too few devices."""
    pools = matching(pools, request)
    if _count(pools) < request["count"]:
        return []
    pools = _near_cells(pools, request, cells, topology)
    if _count(pools) < request["count"]:
        return []
    for kind in ("type-PF", "vdpa"):
        if all(spec.get("dev_type") != kind for spec in request["spec"]):
            pools = [pool for pool in pools if pool.get("dev_type") != kind]
    if not any(is_true(spec.get("remote_managed")) for spec in request["spec"]):
        pools = [pool for pool in pools if not is_true(pool.get("remote_managed"))]
    wanted = {spec.get("live_migratable") for spec in request["spec"]}
    if wanted in ({"true"}, {"false"}):
        pools = [pool for pool in pools if pool.get("live_migratable") in wanted]
    return pools if _count(pools) >= request["count"] else []


def take(pools, requests, cells=None, topology=None):
    """Serve requests from ``pools`` (changed in place): [{alias_name, request_id, count, pool}], or None."""
    taken = []
    for request in requests:
        usable = usable_pools(pools, request, cells, topology)
        if not usable:
            return None
        left = request["count"]
        for pool in usable:
            number = min(pool["count"], left)
            taken.append(
                {
                    "alias_name": request.get("alias_name"),
                    "request_id": request.get("request_id"),
                    "count": number,
                    "pool": {key: value for key, value in pool.items() if key != "count"},
                }
            )
            # An exhausted pool disappears, as in Nova.
            if pool["count"] > left:
                pool["count"] -= left
                left = 0
            else:
                left -= pool["count"]
                pools[:] = [other for other in pools if other is not pool]
            if not left:
                break
    return taken


def copy_pools(pools):
    return [dict(pool) for pool in pools]


def give_back(pools, devices):
    """Return the pools with these devices of the host free again."""
    pools = copy_pools(pools)
    parts = ("vendor_id", "product_id", "numa_node", "dev_type")
    for device in devices:
        same = [pool for pool in pools if all(pool.get(part) == device.get(part) for part in parts)]
        if same:
            same[0]["count"] += 1
        else:
            pools.append({**{part: device.get(part) for part in parts}, "count": 1})
    return pools


def supports(pools, requests, cells=None, topology=None):
    """Whether the pools can serve all requests; nothing is changed."""
    return take(copy_pools(pools), requests, cells, topology) is not None


def give_addresses(devices, taken):
    """Return one entry per device: {alias_name, request_id, vendor_id, product_id, numa_node, dev_type, address}.

    ``devices`` is the host's list of PCI devices; the address is None if the list has no free one.
    """
    used, addressed = set(), []
    for device_taken in taken:
        pool = device_taken["pool"]
        free = [
            device
            for device in devices
            if not device.get("used_by")
            and device.get("available", True)
            and device["address"] not in used
            and all(
                str(device.get(key, "")).lower() == str(pool.get(key, "")).lower()
                for key in ("vendor_id", "product_id")
            )
            and device.get("numa_node") == pool.get("numa_node")
            and (not pool.get("dev_type") or device.get("dev_type") in (None, pool["dev_type"]))
        ]
        for number in range(device_taken["count"]):
            address = free[number]["address"] if number < len(free) else None
            used.add(address)
            addressed.append(
                {
                    "alias_name": device_taken["alias_name"],
                    "request_id": device_taken["request_id"],
                    "vendor_id": pool.get("vendor_id"),
                    "product_id": pool.get("product_id"),
                    "numa_node": pool.get("numa_node"),
                    "dev_type": pool.get("dev_type"),
                    "pool": pool,
                    "address": address,
                }
            )
    return addressed
