# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The vGPUs of this host: what its GPUs offer, and how the mediated devices of its instances are made, checked and
removed.

The claim fixes GPU, type and uuid. The device is made before each start of its guest, since the kernel forgets it when
the host goes down, and removed when the guest is stopped for good. Until then it counts, even if it does not exist.
"""

from __future__ import annotations

import collections
import os
import re

from ...model import host_hints, vgpus
from ...model.safe_text import clean
from ...model.vgpus import DEVICES_LIMIT
from ..connection import require_libvirt
from ..errors import BuildFailed, VgpuUnavailable

PARENTS = "/sys/class/mdev_bus"
DEVICES = "/sys/bus/mdev/devices"
PCI = "vfio-pci"  # what berth's guests can use: other kinds are for s390x
ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")


# ---- what the GPUs offer ---------------------------------------------------------------------------------------------


def tell(settings, records):
    """Return [{parent, type, total, used}] of the GPUs that offer a type that the settings enable. ``used``: claimed by
    records of any role, or made by others."""
    claims = [(each["uuid"], each["parent"]) for record in records for each in claimed(record)]
    on_parent, devices = collections.Counter(parent for _uuid, parent in claims), made()
    found = []
    for parent in _parents():
        kind = settings.mdev_type(parent)
        free = None if kind is None else available(parent, kind)
        if free is not None:
            here = [uuid for uuid, place in devices.items() if place == (parent, kind)]
            others = sum((uuid, parent) not in claims for uuid in here)
            used = on_parent[parent] + others
            found.append({"parent": parent, "type": kind, "total": free + len(here), "used": used})
    return found


def claimed(record):
    return record.resources.get("vgpus") or ()


def available(parent, kind):
    """Return how many more devices of the type the GPU has; None if it has no such type, or guests cannot use it."""
    if parent not in _parents() or kind not in _listed(os.path.join(PARENTS, parent, "mdev_supported_types")):
        return None
    number, interface = (_read(_type(parent, kind), name) for name in ("available_instances", "device_api"))
    return min(int(number), DEVICES_LIMIT) if interface == PCI and number.isdecimal() else None


def made():
    """Return {uuid: (parent, type)} of all mediated devices."""
    found = {}
    for uuid in _listed(DEVICES):
        path = os.path.realpath(os.path.join(DEVICES, uuid))
        kind = os.path.realpath(os.path.join(path, "mdev_type"))
        found[uuid] = os.path.basename(os.path.dirname(path)), os.path.basename(kind)
    return found


def _parents():
    return [name for name in _listed(PARENTS) if ADDRESS.match(name)][:DEVICES_LIMIT]


def _type(parent, kind):
    return os.path.join(PARENTS, parent, "mdev_supported_types", kind)


def _listed(path):
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []  # no such bus: the kernel has no mediated devices


def _read(*path):
    """Return a file's content, which is one word; "" if there is none."""
    try:
        with open(os.path.join(*path), encoding="ascii") as file:
            return file.read(64).strip()
    except (OSError, ValueError):
        return ""


def _write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


# ---- the devices of an instance --------------------------------------------------------------------------------------


def check(host, instance, resources):
    """Raise VgpuUnavailable if a vGPU set aside for the instance (a name) does not exist and cannot be made."""
    wanted, devices = collections.Counter(), None
    for each in resources.get("vgpus") or ():
        devices = made() if devices is None else devices
        wanted[each["parent"]] += each["uuid"] not in devices
        why = _obstacle(host, each, devices, wanted[each["parent"]])
        if why:
            text = "the vGPU %s of %s is not available: %s" % (clean(each["type"]), instance, why[0])
            raise VgpuUnavailable(text, hint=why[1], parent=clean(each["parent"]))


def _obstacle(host, each, devices, wanted):
    """Return (why the vGPU is unavailable, the hint), or None. ``wanted``: how many the GPU must make so far."""
    name, parent, kind, uuid = host.connection.getHostname(), clean(each["parent"]), each["type"], each["uuid"]
    free = available(each["parent"], kind)
    if free is None:
        return "%s on %s offers no such type" % (parent, name), host_hints.start_gpu_driver(parent, name)
    if host.settings.mdev_type(parent) != kind:
        hint = host_hints.enable_mdev_type(kind, parent, name)
        return "the settings of %s do not enable this type on %s" % (name, parent), hint
    if devices.get(uuid, (parent, kind)) != (parent, kind):
        there = tuple(map(clean, devices[uuid]))
        hint = host_hints.remove_mdev(uuid, name)
        return "%s has a mediated device %s on %s of type %s, which is not berth's" % (name, uuid, *there), hint
    if wanted > free:
        return "others use all vGPUs that %s on %s has" % (parent, name), host_hints.free_vgpus(parent, name)
    return None


def make(host, record):
    """Make the instance's mediated devices, if they do not exist."""
    check(host, record.name, record.resources)
    for each in claimed(record):
        if each["uuid"] not in made():
            try:
                _write(os.path.join(_type(each["parent"], each["type"]), "create"), each["uuid"])
            except OSError as error:
                details = each["type"], each["parent"], record.name, error.strerror
                raise BuildFailed("making the vGPU %s of %s for %s: %s" % details)


def remove(connection, uuid, record=None):
    """Remove the mediated devices of an instance whose guest is off. Return whether there was one. Without a record,
    its uuids identify them. Devices that are not as the record says, or that another guest runs with, belong to
    somebody else and stay."""
    devices = made()
    own = _own_uuids(uuid) if devices else ()
    claims = None if record is None else [(each["uuid"], (each["parent"], each["type"])) for each in claimed(record)]
    own_devices = [
        device for device, place in devices.items() if device in own and (claims is None or (device, place) in claims)
    ]
    going = [device for device in own_devices if not _is_used(connection, device)]
    for device in going:
        try:
            _write(os.path.join(DEVICES, device, "remove"), "1")
        except FileNotFoundError:
            pass  # already gone
        except OSError as error:
            raise BuildFailed("removing the mediated device %s: %s" % (device, error.strerror))
    return bool(going)


def left_behind(connection, uuids):
    """Return [(uuid of an instance, its device, GPU)] of these instances' devices that no running guest uses."""
    devices = made()
    if not devices:
        return []
    own = [(uuid, device) for uuid in uuids for device in sorted(_own_uuids(uuid).intersection(devices))]
    return [(uuid, device, devices[device][0]) for uuid, device in own if not _is_used(connection, device)]


def _own_uuids(uuid):
    return {vgpus.own_uuid(uuid, at) for at in range(vgpus.MOST)}


def _is_used(connection, device):
    library = require_libvirt()
    for domain, _stats in connection.getAllDomainStats(library.VIR_DOMAIN_STATS_STATE, 0):
        try:
            if domain.isActive() and device in domain.XMLDesc(0):
                return True
        except library.libvirtError:
            continue  # removed since it was listed
    return False
