# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The PCI devices of this host: who uses them, and the pools of those that guests may have (Nova: PciDevicePool)."""

from __future__ import annotations

import collections
from xml.etree import ElementTree

from ..connection import has_no_driver, require_libvirt

BRIDGE_CLASS = 0x06


def read_devices(connection, warnings):
    """Return (devices, mdev types) from libvirt's node devices: none, with a warning, if it has no driver for them.

    A device: {address, vendor_id, product_id, numa_node, dev_type, iommu_group, parent (address of a VF's PF)}.
    An mdev type: {parent, type, name, available}. Bridges are left out: guests cannot use them.
    """
    library = require_libvirt()
    devices, mdev_types = [], []
    try:
        nodes = connection.listAllDevices(library.VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV)
    except library.libvirtError as error:
        if not has_no_driver(error):
            raise
        warnings.append("PCI devices cannot be listed: %s" % error)
        return [], []
    for node in nodes:
        try:
            text = node.XMLDesc(0)
        except library.libvirtError:
            continue  # removed since it was listed
        device, types = parse_device(text)
        if device is not None:
            devices.append(device)
            mdev_types += types
    return sorted(devices, key=lambda device: device["address"]), mdev_types


def parse_device(text):
    """Return (device or None, its mdev types) from the XML of a node device."""
    capability = ElementTree.fromstring(text).find("capability[@type='pci']")
    if int(capability.findtext("class") or "0", 16) >> 16 == BRIDGE_CLASS:
        return None, []
    address = "%04x:%02x:%02x.%x" % tuple(
        int(capability.findtext(part)) for part in ("domain", "bus", "slot", "function")
    )
    kinds = {part.get("type"): part for part in capability.findall("capability")}
    dev_type, parent = "type-PCI", None
    if "phys_function" in kinds:
        dev_type, parent = "type-VF", read_address(kinds["phys_function"].find("address"))
    elif "virt_functions" in kinds:
        dev_type = "type-PF"
    numa, group = capability.find("numa"), capability.find("iommuGroup")
    device = {
        "address": address,
        "vendor_id": _hex_id(capability, "vendor"),
        "product_id": _hex_id(capability, "product"),
        "numa_node": None if numa is None or int(numa.get("node")) < 0 else int(numa.get("node")),
        "dev_type": dev_type,
        "iommu_group": None if group is None else int(group.get("number")),
        "parent": parent,
    }
    types = []
    if "mdev_types" in kinds:
        for kind in kinds["mdev_types"].findall("type"):
            available = int(kind.findtext("availableInstances") or 0)
            types.append(
                {"parent": address, "type": kind.get("id"), "name": kind.findtext("name"), "available": available}
            )
    return device, types


def read_address(element):
    """Return "0000:81:00.0" from an <address domain= bus= slot= function=/>."""
    return "%04x:%02x:%02x.%x" % tuple(int(element.get(part), 16) for part in ("domain", "bus", "slot", "function"))


def _hex_id(capability, name):
    element = capability.find(name)
    return "%04x" % int(element.get("id"), 16) if element is not None and element.get("id") else "0000"


def mark(devices, users, allowed):
    """Set ``used_by`` from ``users`` {address: instance uuid}, and ``available``: free, and offered by ``allowed``.

    ``allowed`` is the setting pci_devices. A PF is not free while one of its VFs is used, and a VF not while its PF is.
    """
    taken = set(users) | {device["parent"] for device in devices if device["address"] in users}
    for device in devices:
        device["used_by"] = users.get(device["address"])
        device["available"] = (
            device["address"] not in taken
            and device["parent"] not in users
            and any(_offers(line, device) for line in allowed)
        )


def pools(devices):
    """Return the available devices, counted by what a request may ask for."""
    counts = collections.Counter(
        (device["vendor_id"], device["product_id"], device["numa_node"], device["dev_type"])
        for device in devices
        if device["available"]
    )
    return [
        {"vendor_id": vendor, "product_id": product, "numa_node": node, "dev_type": dev_type, "count": count}
        for (vendor, product, node, dev_type), count in sorted(counts.items(), key=repr)
    ]


def _offers(line, device):
    return (
        line["vendor_id"] == device["vendor_id"]
        and line["product_id"] == device["product_id"]
        and line.get("address") in (None, device["address"])
    )
