# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One Debian guest from create to stop and start. Stage by stage something is done to it, and it is looked at inside."""

from __future__ import annotations

import socket

import pytest
from conftest import FLAVORS, LARGER

from playbooks import records

GIB, MIB = 1 << 30, 1 << 20
# A data disk, as docs/catalog.md says, and sshd on a port that the security group does not open. cloud-init's `mounts`
# would replace those of swap and the ephemeral disk.
SET_UP = """#cloud-config
write_files:
- {path: /etc/written-by-user-data, content: "as the user wished"}
- {path: /etc/ssh/sshd_config.d/ports.conf, content: "Port 22\\nPort 2222\\n"}
fs_setup:
- {device: /dev/disk/by-id/virtio-data, filesystem: ext4, label: data, partition: none, overwrite: false}
runcmd:
- cat /proc/sys/kernel/random/boot_id >> /var/log/first-boots
- mkdir /srv/data
- echo "/dev/disk/by-id/virtio-data /srv/data ext4 nofail 0 2" >> /etc/fstab
- mount /srv/data
"""
INSTANCE = {
    "berth_disks": {"data": {"size_gb": 1}},
    "berth_security_groups": ["ssh"],
    "berth_user_data": SET_UP,
}
VOLUME = "/dev/disk/by-id/virtio-more"
USE_VOLUME = "sudo mkfs.ext4 -q {0} && sudo mount {0} /media && echo kept | sudo tee /media/kept && sudo umount /media"
READ_VOLUME = "sudo mount {0} /media && cat /media/kept && sudo umount /media"


class Life:
    """``seen``: {stage: the look inside}, in the order of the stages."""

    def __init__(self, guest):
        self.guest, self.seen, self.read_back = guest, {}, None

    @property
    def last(self):
        return list(self.seen.values())[-1]

    def created(self):
        self.guest.play("create")
        return self.guest.booted()

    def rebooted(self):
        self.guest.ssh("echo kept | sudo tee /mnt/kept /srv/data/kept && sync && sudo systemctl reboot", check=False)
        return self.guest.booted(after=self.last)

    def resized(self):
        self.elsewhere("resize")
        return self.guest.booted(after=self.last)

    def confirmed(self):
        self.guest.play("confirm_resize", LARGER)
        assert len(records(self.guest.lab)) == 1, "the source keeps nothing"
        return self.guest.look()

    def migrated(self):
        self.elsewhere("live_migrate")
        return self.guest.look()

    def given_a_volume(self):
        self.volumes("more")
        self.guest.ssh(USE_VOLUME.format(VOLUME))
        return self.guest.look()

    def without_the_volume(self):
        self.volumes()
        return self.guest.look()

    def given_it_again(self):
        self.volumes("more")
        self.read_back = self.guest.ssh(READ_VOLUME.format(VOLUME)).stdout
        return self.guest.look()

    def volumes(self, *names):
        self.guest.play("update_disks", {**LARGER, "berth_volumes": list(names)})

    def started_again(self):
        self.guest.play("stop", LARGER)
        self.guest.play("start", LARGER)
        return self.guest.booted(after=self.last)

    def elsewhere(self, playbook):
        source = self.guest.host
        self.guest.play(playbook, LARGER)
        assert self.guest.host != source, "%s goes to another host" % playbook


VOLUME_STAGES = ("given_a_volume", "without_the_volume", "given_it_again")
STAGES = ("created", "rebooted", "resized", "confirmed", "migrated", *VOLUME_STAGES, "started_again")
BOOTS = ("created", "rebooted", "resized", "started_again")


@pytest.fixture(scope="module")
def life(make_guest):
    life = Life(make_guest("deb-1", instance=INSTANCE))
    yield life
    life.guest.play("delete", check=False)
    life.guest.play("delete_volume", {"berth_volume": "more"}, check=False)


@pytest.fixture(scope="module", params=STAGES)
def stage(request, life):
    """The name of a stage that the guest has gone through; its look is ``seen``."""
    if tuple(life.seen) != STAGES[: STAGES.index(request.param)]:
        pytest.fail("a stage before %s failed" % request.param)
    life.seen[request.param] = getattr(life, request.param)()
    return request.param


@pytest.fixture
def seen(life, stage):
    return life.seen[stage]


@pytest.fixture
def first(life):
    return life.seen["created"]


@pytest.fixture
def before(life, stage):
    """The look before; at the first stage there is none."""
    return life.seen.get((None, *STAGES)[STAGES.index(stage)])


@pytest.fixture
def flavor(stage):
    return FLAVORS["debian" if stage in ("created", "rebooted") else "larger"]


def test_guest_has_its_name_keys_and_identity(seen, first, key):
    assert seen["hostname"] == "deb-1"
    assert any(key[1] in text for text in seen["keys"]), seen["keys"]
    assert (seen["host_key"], seen["machine_id"]) == (first["host_key"], first["machine_id"])


def test_cloud_init_took_it_for_one_instance(seen, first):
    instance = first["cloud_init"]["instance_id"]
    assert (seen["cloud_init"]["instance_id"], seen["cloud_init"]["instances"]) == (instance, [instance])
    assert seen["first_boots"] == [first["boot"]], "runcmd runs at the first boot alone"


def test_cloud_init_and_systemd_complain_of_nothing(seen):
    assert seen["cloud_init"]["result"]["errors"] == []
    assert seen["cloud_init"]["complaints"] == []
    assert seen["failed_units"] == []


def test_user_data_is_what_the_user_wrote(seen):
    assert seen["cloud_init"]["user_data"] == SET_UP
    assert seen["written"] == "as the user wished"


def test_both_nics_have_their_static_addresses(seen, life):
    address = life.guest.address
    assert sorted(seen["addresses"].values()) == sorted([[address + "/24"], ["192.0.2.7/24"]])
    gateway = address.rpartition(".")[0] + ".1"
    assert [route.split()[:3] for route in seen["routes"]] == [["default", "via", gateway]]
    assert gateway in seen["nameservers"]


def test_vcpus_and_memory_are_the_flavors(seen, flavor):
    assert seen["vcpus"] == flavor["vcpus"]
    assert flavor["memory_mb"] * MIB * 0.85 < seen["memory"] <= flavor["memory_mb"] * MIB


def test_the_root_file_system_fills_its_disk(seen, flavor):
    disk = flavor["root_gb"] * GIB
    assert disk * 0.9 < seen["root"]["bytes"] <= disk


def test_swap_is_in_use(seen, flavor):
    assert [device for device, _size in seen["swaps"]] == [seen["labels"]["swap"]]
    assert flavor["swap"] * MIB - MIB <= seen["swaps"][0][1] <= flavor["swap"] * MIB


def test_the_ephemeral_disk_is_mounted_and_filled_by_its_file_system(seen, flavor):
    assert seen["ephemeral"] and seen["ephemeral"]["device"] == seen["labels"]["ephemeral0"]
    disk = flavor["ephemeral_gb"] * GIB
    assert disk * 0.9 < seen["ephemeral"]["bytes"] <= disk


def test_the_data_disk_is_mounted_by_its_name_and_has_its_size(seen):
    assert seen["data"] and seen["data"]["device"] == seen["disks"]["virtio-data"]
    assert GIB * 0.9 < seen["data"]["bytes"] <= GIB


def test_the_ephemeral_disk_and_the_data_disk_keep_their_files(seen, stage):
    assert seen["kept"] == ([None, None] if stage == "created" else ["kept\n", "kept\n"])


def test_a_volume_comes_and_goes_while_the_guest_runs_and_keeps_what_is_on_it(seen, stage, life):
    assert ("virtio-more" in seen["disks"]) == (stage in ("given_a_volume", "given_it_again", "started_again"))
    if stage in ("given_it_again", "started_again"):
        assert life.read_back == "kept\n"


def test_its_security_group_opens_one_port_of_two_on_which_it_listens(seen, life):
    assert {"22", "2222"} <= set(seen["listening"])
    assert answers(life.guest.address, 22) and not answers(life.guest.address, 2222)


def test_the_guest_boots_only_where_its_power_changes_and_is_shut_down_in_order(seen, before, stage):
    if before:
        assert (seen["boot"] != before["boot"]) == (stage in BOOTS)
        assert seen["ended_well"]


def test_its_clock_goes_on(seen, before):
    if before:
        assert abs((seen["time"] - before["time"]) - (seen["here"] - before["here"])) < 10


def answers(address, port):
    try:
        socket.create_connection((address, port), timeout=15).close()
    except OSError:
        return False
    return True
