# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One Debian guest from create to stop and start. Each stage is a fixture that needs the one before it: what it saw inside."""

from __future__ import annotations

import pytest
from conftest import FLAVORS, USER_DATA

from playbooks import records

GIB, MIB = 1 << 30, 1 << 20
LARGER = {"flavor": "larger"}


@pytest.fixture(scope="module")
def guest(make_guest):
    guest = make_guest("deb-1")
    yield guest
    guest.play("delete", check=False)


@pytest.fixture(scope="module")
def created(guest):
    guest.play("create")
    return guest.booted()


@pytest.fixture(scope="module")
def rebooted(guest, created):
    guest.ssh("echo kept | sudo tee /mnt/kept && sync && sudo systemctl reboot", check=False)
    return guest.booted(after=created)


@pytest.fixture(scope="module")
def resized(guest, rebooted):
    source = guest.host
    guest.play("resize", LARGER)
    assert guest.host != source, "a resize goes to another host"
    return guest.booted(after=rebooted)


@pytest.fixture(scope="module")
def confirmed(guest, resized):
    guest.play("confirm_resize", LARGER)
    assert len(records(guest.lab)) == 1, "the source keeps nothing"
    return guest.look()


@pytest.fixture(scope="module")
def migrated(guest, confirmed):
    source = guest.host
    guest.play("live_migrate", LARGER)
    assert guest.host != source
    return guest.look()


@pytest.fixture(scope="module")
def started_again(guest, migrated):
    guest.play("stop", LARGER)
    guest.play("start", LARGER)
    return guest.booted(after=migrated)


@pytest.fixture(scope="module", params=["created", "rebooted", "resized", "confirmed", "migrated", "started_again"])
def stage(request):
    """What was seen inside at each stage."""
    return request.getfixturevalue(request.param)


def flavor_of(stage):
    return FLAVORS["larger" if stage["vcpus"] == 2 else "debian"]


def test_guest_has_its_name_keys_and_identity(stage, created, key):
    assert stage["hostname"] == "deb-1"
    assert any(key[1] in text for text in stage["keys"]), stage["keys"]
    assert (stage["host_key"], stage["machine_id"]) == (created["host_key"], created["machine_id"])


def test_cloud_init_took_it_for_one_instance_and_complained_of_nothing(stage, created):
    seen = stage["cloud_init"]
    assert seen["instance_id"] == created["cloud_init"]["instance_id"]
    assert seen["instances"] == [seen["instance_id"]]
    assert stage["first_boots"] == [created["boot"]], "runcmd runs at the first boot alone"
    assert seen["result"]["errors"] == []
    assert seen["complaints"] == []


def test_user_data_is_what_the_user_wrote(stage):
    assert stage["cloud_init"]["user_data"] == USER_DATA
    assert stage["written"] == "as the user wished"


def test_both_nics_have_their_static_addresses(stage, guest):
    assert sorted(stage["addresses"].values()) == sorted([[guest.address + "/24"], ["192.0.2.7/24"]])
    gateway = guest.address.rpartition(".")[0] + ".1"
    assert [route.split()[:3] for route in stage["routes"]] == [["default", "via", gateway]]
    assert gateway in stage["nameservers"]


def test_the_root_file_system_fills_its_disk(stage):
    disk = flavor_of(stage)["root_gb"] * GIB
    assert disk * 0.9 < stage["root"]["bytes"] <= disk


def test_swap_is_in_use(stage):
    assert [device for device, _size in stage["swaps"]] == [stage["labels"]["swap"]]
    wanted = flavor_of(stage)["swap"] * MIB
    assert wanted - MIB <= stage["swaps"][0][1] <= wanted


def test_the_ephemeral_disk_is_mounted_and_filled_by_its_file_system(stage):
    assert stage["ephemeral"] and stage["ephemeral"]["device"] == stage["labels"]["ephemeral0"]
    disk = flavor_of(stage)["ephemeral_gb"] * GIB
    assert disk * 0.9 < stage["ephemeral"]["bytes"] <= disk


def test_no_unit_failed(stage):
    assert stage["failed_units"] == []


def test_vcpus_and_memory_are_the_flavors(created, resized):
    for seen, flavor in ((created, FLAVORS["debian"]), (resized, FLAVORS["larger"])):
        assert seen["vcpus"] == flavor["vcpus"]
        assert flavor["memory_mb"] * MIB * 0.85 < seen["memory"] <= flavor["memory_mb"] * MIB


def test_the_ephemeral_disk_keeps_its_files_when_the_instance_moves(rebooted, resized, migrated):
    assert [seen["kept"] for seen in (rebooted, resized, migrated)] == ["kept\n"] * 3


def test_the_guest_was_shut_down_in_order_for_reboot_resize_and_stop(rebooted, resized, started_again):
    assert [seen["ended_well"] for seen in (rebooted, resized, started_again)] == [True] * 3


def test_confirm_and_live_migration_do_not_boot_the_guest(resized, confirmed, migrated):
    assert resized["boot"] == confirmed["boot"] == migrated["boot"]


def test_the_clock_goes_on_over_a_live_migration(confirmed, migrated):
    assert abs((migrated["time"] - confirmed["time"]) - (migrated["here"] - confirmed["here"])) < 10
