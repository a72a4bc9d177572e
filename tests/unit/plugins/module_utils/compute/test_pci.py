# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI devices from libvirt's node devices, and what of them can be had."""

from __future__ import annotations

import errno
import types

import fake_libvirt
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import pci

NODE_DEVICE = """<device><name>pci</name><capability type='pci'><class>0x%(class)s</class>
<domain>0</domain><bus>129</bus><slot>16</slot><function>%(function)d</function>
<product id='0x%(product)s'>x</product><vendor id='0x8086'>x</vendor>%(more)s</capability></device>"""
PF = """<capability type='virt_functions' maxCount='2'>
<address domain='0x0000' bus='0x81' slot='0x10' function='0x1'/></capability>"""
VF = "<capability type='phys_function'><address domain='0x0000' bus='0x81' slot='0x10' function='0x0'/></capability>"
MDEV = """<capability type='mdev_types'><type id='nvidia-222'><name>GRID T4-1B</name><deviceAPI>vfio-pci</deviceAPI>
<availableInstances>16</availableInstances></type></capability>"""
PLACE = """<iommuGroup number='11'><address domain='0x0000' bus='0x81' slot='0x10' function='0x1'/></iommuGroup>
<numa node='%d'/>"""


def parse(more="", function=0, product="10fb", kind="020000"):
    return pci.parse_device(NODE_DEVICE % {"more": more, "function": function, "product": product, "class": kind})


def test_a_virtual_function_knows_its_parent_its_node_and_its_iommu_group():
    device, mdev_types = parse(VF + PLACE % 1, function=1, product="10ed")
    assert device == {
        "address": "0000:81:10.1",
        "vendor_id": "8086",
        "product_id": "10ed",
        "numa_node": 1,
        "dev_type": "type-VF",
        "iommu_group": 11,
        "parent": "0000:81:10.0",
    }
    assert mdev_types == []


@pytest.mark.parametrize(("more", "dev_type"), [("", "type-PCI"), (PF, "type-PF"), (VF, "type-VF"), (MDEV, "type-PCI")])
def test_the_device_type_is_novas(more, dev_type):
    assert parse(more)[0]["dev_type"] == dev_type


def test_a_node_below_zero_means_none():
    assert parse(PLACE % -1)[0]["numa_node"] is None


def test_mdev_types_are_listed_with_their_device():
    assert parse(MDEV)[1] == [{"parent": "0000:81:10.0", "type": "nvidia-222", "name": "GRID T4-1B", "available": 16}]


def test_bridges_are_left_out():
    assert parse(kind="060400") == (None, [])


def devices():
    return [
        parse(PF + PLACE % 0, 0)[0],
        parse(VF + PLACE % 0, 1, "10ed")[0],
        parse(VF + PLACE % 0, 2, "10ed")[0],
    ]


BOTH = [{"vendor_id": "8086", "product_id": "10fb"}, {"vendor_id": "8086", "product_id": "10ed"}]


@pytest.mark.parametrize(
    ("allowed", "users", "available"),
    [
        ([], {}, []),
        (BOTH[1:], {}, [1, 2]),
        (BOTH, {}, [0, 1, 2]),
        (BOTH, {"0000:81:10.1": "a"}, [2]),
        (BOTH, {"0000:81:10.0": "a"}, []),
        ([dict(BOTH[1], address="0000:81:10.2")], {}, [2]),
    ],
    ids=["nothing is offered", "VFs only", "all", "a used VF takes its PF", "a used PF takes its VFs", "one address"],
)
def test_a_device_is_available_where_it_is_offered_and_free(allowed, users, available):
    """C19"""
    found = devices()
    pci.mark(found, users, allowed)
    assert [index for index, device in enumerate(found) if device["available"]] == available
    assert {device["address"]: device["used_by"] for device in found if device["used_by"]} == users


def test_pools_count_like_devices():
    found = devices()
    pci.mark(found, {}, BOTH)
    assert pci.pools(found) == [
        {"vendor_id": "8086", "product_id": "10ed", "numa_node": 0, "dev_type": "type-VF", "count": 2},
        {"vendor_id": "8086", "product_id": "10fb", "numa_node": 0, "dev_type": "type-PF", "count": 1},
    ]


def listing(monkeypatch, *error):
    """pci.read_devices(connection, warnings) with the warnings, of a libvirt that answers with that error."""
    warnings = []

    def refuse(_flags):
        raise fake_libvirt.libvirtError(*error)

    monkeypatch.setattr(connection, "libvirt", fake_libvirt.library())
    return pci.read_devices(types.SimpleNamespace(listAllDevices=refuse), warnings), warnings


def test_a_libvirt_without_a_driver_for_node_devices_has_no_pci_devices_and_the_host_is_not_lost(monkeypatch):
    """Where each driver has a daemon, that for node devices may not be installed."""
    error = 38, "no socket virtnodedevd-sock", 7, errno.ENOENT
    assert listing(monkeypatch, *error) == (([], []), ["PCI devices cannot be listed: no socket virtnodedevd-sock"])


def test_a_driver_for_node_devices_that_does_not_answer_is_no_empty_list(monkeypatch):
    with pytest.raises(fake_libvirt.libvirtError):
        listing(monkeypatch, 38, "refused", 7, errno.ECONNREFUSED)
