# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The concrete machine type and the addresses of the devices that libvirt chose at the first definition, and those of
devices that were added since.

The request of the record keeps them ({wished, machine, devices}) for every later definition, on whichever host. So a
guest finds the same devices in the same places after an upgrade of its host, a start, a move or a resize. A record
without them is from an older version; for it, libvirt chooses again each time.
"""

from __future__ import annotations

from xml.etree import ElementTree

from ...model import adopted
from ...model.guest_settings import KEY, GuestSettings
from ...model.guest_settings import hardware as of

# A machine has these built in, and libvirt accepts no address for them. Companions of a USB controller come with it.
ROOTS = ("pcie-root", "pci-root")
KEPT = ("disk", "interface", "controller", "channel", "rng", "memballoon", "video", "watchdog", "hostdev")


def machine(spec):
    """Return the machine type that the guest was first defined with, or None."""
    hardware = of(spec)
    return hardware["machine"] if hardware else None


def keep(spec, text):
    """Return the request with the hardware of the definition ``text``. Entries kept before stay, and a device whose
    place is taken gets another. A definition of another machine type says nothing about the devices of this one. An adopted
    guest has all of that in its own definition."""
    if adopted.of(spec):
        return spec
    root = ElementTree.fromstring(text)
    chosen, known = root.find("os/type").get("machine"), of(spec) or {}
    if not chosen or known.get("machine", chosen) != chosen:
        return spec
    found = {
        key: _words(device.find("address")) for key, device in _devices(root) if device.find("address") is not None
    }
    kept = known.get("devices", {})
    taken = set().union(*(_claims(key, address) for key, address in kept.items()))
    new = {key: address for key, address in found.items() if key not in kept and not _claims(key, address) & taken}
    devices = {**new, **kept}
    return {**spec, KEY: {**known, "wished": _requested_machine(spec), "machine": chosen, "devices": devices}}


def keep_variables(spec, form):
    """Return the request with the form of the guest's UEFI variables (nvram.form), or as it is if there are none."""
    kept = of(spec)
    return {**spec, KEY: {**kept, "variables": form}} if kept and form else spec


def _claims(key, address):
    """Return what no two devices of a guest may share: the number of a controller, and an address. Disks on controllers
    of two types may have the same one."""
    parts = address.split(",")
    number = {key.rpartition("/")[0]} if key.startswith("controller/") else set()
    at = {",".join(part for part in parts if not part.startswith("multifunction="))}
    return number if "type=drive" in parts else number | at


def without(spec, gone):
    """Return the request without the addresses of devices that are gone for good (disk/vdb), so that others may get them."""
    hardware = spec.get(KEY)
    if not hardware:
        return spec
    devices = {key: address for key, address in hardware["devices"].items() if key not in gone}
    return {**spec, KEY: dict(hardware, devices=devices)}


def place(root, spec):
    """Give the devices of a new definition (an element) the addresses that are kept for them."""
    hardware = of(spec)
    if not hardware:
        return
    there = dict(_devices(root))
    for key, address in hardware["devices"].items():
        device = there.get(key)
        if device is None and key.startswith("controller/"):
            device = _controller(root.find("devices"), key)
        if device is not None:
            ElementTree.SubElement(device, "address", _attributes(address))


def _requested_machine(spec):
    return GuestSettings.of(spec).get("machine_type")


def _devices(root):
    """Yield (key, device). The key names the device in its guest; one without a name is counted among its kind."""
    counts = {}
    for device in root.find("devices"):
        if device.tag not in KEPT:
            continue
        if device.tag == "controller":
            if device.get("model") in ROOTS or device.find("master") is not None:
                continue
            name = "/".join(device.get(part) or "" for part in ("type", "index", "model"))
        elif device.tag == "disk":
            name = device.find("target").get("dev")
        elif device.tag == "interface":
            name = device.find("mac").get("address")
        else:
            name = str(counts.setdefault(device.tag, 0))
            counts[device.tag] += 1
        yield "%s/%s" % (device.tag, name), device


def _controller(devices, key):
    """Return one that libvirt added for others, such as a PCI port that they are plugged into."""
    _tag, kind, index, model = key.split("/")
    parts = {"type": kind, "index": index, "model": model}
    return ElementTree.SubElement(devices, "controller", {name: part for name, part in parts.items() if part})


def _words(address):
    """Return an address as one word: type=pci,bus=0x01,..."""
    return ",".join("%s=%s" % pair for pair in sorted(address.attrib.items()))


def _attributes(address):
    return dict(pair.split("=", 1) for pair in address.split(",") if "=" in pair)
