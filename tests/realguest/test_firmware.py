# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian with each firmware and loader, and with its disks on each kind of bus."""

from __future__ import annotations

import pytest

UEFI = {"hw_firmware_type": "uefi"}
SECURE = {**UEFI, "os_secure_boot": "required"}


@pytest.fixture
def boots(make_guest):
    """boots(name, loader, properties) creates such a guest and looks inside; it is deleted after the test."""
    made = []

    def create(name, loader="signed", **properties):
        guest = make_guest(name, 221, loader, **properties)
        made.append(guest)
        guest.play("create")
        return guest

    yield create
    for guest in made:
        guest.play("delete", check=False)


def test_uefi_alone_boots_a_loader_that_nobody_signed(boots):
    seen = boots("deb-uefi", "unsigned", **UEFI).booted()
    assert (seen["efi"], seen["secure_boot"]) == (True, False)


def test_secure_boot_boots_the_signed_loader(boots):
    seen = boots("deb-secure", **SECURE).booted()
    assert (seen["efi"], seen["secure_boot"]) == (True, True)


def test_secure_boot_refuses_a_loader_that_nobody_signed(boots):
    said = boots("deb-refused", "unsigned", **SECURE).console_says("Access Denied")
    assert "Linux version" not in said


@pytest.mark.parametrize(
    "properties, prefix",
    [
        ({"hw_disk_bus": "sata"}, "/dev/sd"),
        ({"hw_disk_bus": "ide", "hw_machine_type": "pc"}, "/dev/sd"),
        ({"hw_disk_bus": "scsi"}, "/dev/sd"),
        ({"hw_cdrom_bus": "sata"}, "/dev/vd"),
    ],
    ids=["sata", "ide", "scsi", "virtio, seed as a CD-ROM"],
)
def test_cloud_init_reads_its_seed_on_every_bus(boots, properties, prefix):
    seen = boots("deb-bus", **properties).booted()
    assert seen["hostname"] == "deb-bus"
    assert seen["root"]["device"].startswith(prefix)
    assert [device for device, _size in seen["swaps"]] == [seen["labels"]["swap"]]
    assert seen["ephemeral"]["device"] == seen["labels"]["ephemeral0"]
    is_cdrom = properties.get("hw_disk_bus") in ("sata", "ide") or "hw_cdrom_bus" in properties
    assert ("/dev/sr" in seen["labels"]["cidata"]) == is_cdrom
