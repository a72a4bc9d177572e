# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian with each firmware and loader, and with its disks on each kind of bus: few guests, each with one of both."""

from __future__ import annotations

import pytest
from conftest import LARGER

UEFI = {"hw_firmware_type": "uefi"}
SECURE = {**UEFI, "os_secure_boot": "required"}
# name -> loader, properties
GUESTS = {
    "deb-uefi": ("unsigned", {**UEFI, "hw_disk_bus": "scsi", "hw_cdrom_bus": "scsi"}),
    "deb-secure": ("signed", {**SECURE, "hw_disk_bus": "sata"}),
    "deb-ide": ("signed", {"hw_machine_type": "pc", "hw_disk_bus": "ide"}),
}


@pytest.fixture(scope="module")
def make(make_guest):
    """make(name, loader, properties, instance) -> Guest, created; it is deleted when the next one is made."""
    made = []

    def delete():
        while made:
            made.pop().play("delete", check=False)

    def create(name, loader, properties, instance=None):
        delete()
        guest = make_guest(name, 221, loader, instance, **properties)
        made.append(guest)
        guest.play("create")
        return guest

    yield create
    delete()


@pytest.fixture(scope="module")
def visited():
    return {}


@pytest.fixture
def visit(make, visited):
    """visit(name) -> that guest, which is made for the first who asks, and what was seen inside then."""

    def inside(name):
        if name not in visited:
            guest = make(name, *GUESTS[name])
            visited[name] = guest, guest.booted()
        return visited[name]

    return inside


@pytest.fixture
def look(visit):
    return lambda name: visit(name)[1]


def test_uefi_alone_boots_a_loader_that_nobody_signed(look):
    seen = look("deb-uefi")
    assert (seen["efi"], seen["secure_boot"]) == (True, False)


def test_scsi_disks_and_the_seed_as_a_cd_rom(look):
    has_its_disks(look("deb-uefi"), "deb-uefi")


def test_secure_boot_boots_the_signed_loader(look):
    seen = look("deb-secure")
    assert (seen["efi"], seen["secure_boot"]) == (True, True)


def test_sata_disks_and_the_seed_as_a_cd_rom(look):
    has_its_disks(look("deb-secure"), "deb-secure")


def test_a_resize_takes_the_firmware_with_its_variables_along(visit):
    guest, before = visit("deb-secure")
    source = guest.host
    guest.play("resize", LARGER)
    seen = guest.booted(after=before)
    assert guest.host != source
    assert (seen["efi"], seen["secure_boot"]) == (True, True)
    assert seen["host_key"] == before["host_key"]
    assert seen["root"]["bytes"] > before["root"]["bytes"] and seen["ephemeral"]["bytes"] > before["ephemeral"]["bytes"]


def test_ide_disks_and_the_seed_as_a_cd_rom(look):
    has_its_disks(look("deb-ide"), "deb-ide")


def test_secure_boot_refuses_a_loader_that_nobody_signed(make):
    said = make("deb-refused", "unsigned", SECURE).console_says("Access Denied")
    assert "Linux version" not in said


def test_secure_boot_from_a_volume_goes_on_after_a_reboot_a_stop_and_a_delete(make):
    guest = make("deb-volume", "signed", SECURE, {"berth_volumes": {"os": {"boot_index": 0}}})
    looks = [guest.booted()]
    guest.ssh("sudo systemctl reboot", check=False)
    looks.append(guest.booted(after=looks[-1]))
    for playbooks in (("stop", "start"), ("delete", "create")):
        for playbook in playbooks:
            guest.play(playbook)
        looks.append(guest.booted(after=looks[-1]))
    assert {(seen["efi"], seen["secure_boot"], seen["host_key"]) for seen in looks} == {
        (True, True, looks[0]["host_key"])
    }
    assert len({seen["boot"] for seen in looks}) == len(looks)
    guest.play("delete")
    guest.play("delete_volume", {"berth_volume": "os"})


def has_its_disks(seen, name):
    """cloud-init has read the seed from a CD-ROM, and the guest uses all its disks."""
    assert seen["hostname"] == name
    assert seen["root"]["device"].startswith("/dev/sd")
    assert seen["labels"]["cidata"].startswith("/dev/sr")
    assert [device for device, _size in seen["swaps"]] == [seen["labels"]["swap"]]
    assert seen["ephemeral"]["device"] == seen["labels"]["ephemeral0"]
