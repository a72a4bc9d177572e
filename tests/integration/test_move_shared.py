# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moves between hosts that have one storage: nothing is copied, and no side removes the other's disks (R01-R30; I1, I3, I5).

One instance goes through all of it, so the tests of this file follow each other.
"""

from __future__ import annotations

import pytest
from conftest import make_whole
from test_resize import cases, facts, verified

from playbooks import catalog, homes, left, records, vm

POOL = "/var/lib/libvirt/berth"
SHARE = "mkdir -p -m 711 /srv/shared/pool; mount --bind /srv/shared/pool " + POOL
BIG = {"mover_flavor": cases.BIGGER}
VOLUME_ROLES = 'sed -n \'s/.*"role": "\\([A-Z]*\\)".*/\\1/p\' /var/lib/berth/volumes/*/record.json 2>/dev/null'


@pytest.fixture(scope="module")
def shared(prepared_lab, image, tmp_path_factory):
    """A running instance whose guest writes numbered blocks, on hosts that all have the same pool -> case."""
    make_whole(prepared_lab)
    for host in prepared_lab.hosts:
        prepared_lab.sh(host, SHARE)
    case = cases.Case(prepared_lab, image, tmp_path_factory.mktemp("shared"))
    case.play("create")
    prepared_lab.guest_facts(cases.NAME, timeout=120, until=lambda said: said["ack"] > 0)
    yield case
    make_whole(prepared_lab)
    for host in prepared_lab.hosts:
        prepared_lab.sh(host, "rm -rf %s/*; umount %s" % (POOL, POOL))


def disks(case):
    """The disks in the pool, which every host sees."""
    return sorted(name.rpartition("/")[2] for name in case.look(case.lab.hosts[0])["files"] if "instances" not in name)


def test_a_resize_hands_the_disk_over_and_a_revert_gives_up_what_came_after(shared):
    source = shared.owner()
    before = facts(shared, source)
    done = shared.play("resize", BIG)
    destination = homes(shared.lab)[cases.NAME]
    assert destination != source
    inside = facts(shared, destination, verified)
    assert (inside["vcpus"], inside["disk"], inside["nonce"]) == (2, 2 << 30, before["nonce"])
    assert inside["verify"]["result"] == "ok" and inside["ack"] >= before["ack"], "all that was acknowledged is there"
    assert len([name for name in disks(shared) if name.startswith("root.qcow2")]) == 2, done.output[-3000:]
    assert shared.play("resize", BIG).changed[cases.NAME] == 0

    shared.play("revert_resize", BIG)
    assert records(shared.lab) == [(source, cases.NAME, "OWN")]
    inside = facts(shared, source, lambda said: said["up"] < 60 and said["boots"] == 2)
    assert (inside["vcpus"], inside["disk"], inside["nonce"]) == (1, 1 << 30, before["nonce"])
    assert disks(shared) == ["attached.json", "owner", "root.qcow2", "seed.iso"]


def test_a_cold_migration_confirmed_leaves_one_disk_and_a_running_guest(shared):
    source = shared.owner()
    shared.play("cold_migrate")
    destination = homes(shared.lab)[cases.NAME]
    assert destination != source
    facts(shared, destination, lambda said: said["boots"] == 3)
    shared.play("confirm_resize")
    assert records(shared.lab) == [(destination, cases.NAME, "OWN")]
    assert disks(shared) == ["attached.json", "owner", "root.qcow2", "seed.iso"]
    assert len(shared.look(destination)["running"]) == 1


def test_a_live_migration_keeps_the_guest_running_and_its_disk_where_it_is(shared):
    source = shared.owner()
    before = facts(shared, source)
    shared.play("live_migrate")
    destination = homes(shared.lab)[cases.NAME]
    assert destination != source
    assert records(shared.lab) == [(destination, cases.NAME, "OWN")]
    after = facts(shared, destination, lambda said: said["ack"] > before["ack"])
    assert (after["boots"], after["nonce"]) == (before["boots"], before["nonce"])
    assert disks(shared) == ["attached.json", "owner", "root.qcow2", "seed.iso"]
    # The last line of defence: QEMU's lock on the image holds across the hosts.
    second = shared.lab.sh(source, "qemu-io -f qcow2 -c 'write 0 512' %s/instances/*/root.qcow2" % POOL, check=False)
    assert second.rc and "lock" in second.output, second.output


def test_after_a_host_was_switched_off_another_goes_on_with_its_disks_and_it_starts_nothing_when_it_is_back(shared):
    lost, before = shared.owner(), facts(shared, shared.owner())
    gone = {"berth_lost_hosts": lost}
    refused = shared.play("take_over", gone, check=False)
    assert refused.rc and "HostNotLost" in refused.output, refused.output
    assert len(shared.look(lost)["running"]) == 1
    shared.lab.crash(lost)
    done = shared.play("take_over", gone)
    now = {name: host for host, name, role in records(shared.lab) if role == "OWN"}[cases.NAME]
    assert now != lost and "with the disks that it had" in " ".join(done.output.split()), done.output
    after = facts(shared, now, verified)
    assert (after["verify"]["result"], after["nonce"]) == ("ok", before["nonce"]) and after["ack"] >= before["ack"]
    assert shared.play("take_over", gone).changed[cases.NAME] == 0

    shared.lab.start(lost)
    shared.lab.sh(lost, SHARE)
    told = shared.play("start", check=False)
    assert told.rc and "DuplicateInstance" in told.output and shared.look(lost)["active"] == []
    alone = shared.lab.module(lost, "berth.kvm.instance", {"uuid": shared.look(now)["running"][0]}, check=False)
    assert "DisksOfAnotherHost" in str(alone) and shared.look(lost)["active"] == []
    shared.play("recover")  # the disks prove that the copy is outdated
    assert shared.look(lost)["active"] == []
    assert records(shared.lab) == [(now, cases.NAME, "OWN")]
    assert len(shared.look(now)["running"]) == 1 and disks(shared) == [
        "attached.json",
        "owner",
        "root.qcow2",
        "seed.iso",
    ]


def test_only_the_owner_of_the_disks_deletes_them(shared):
    owner = shared.owner()
    uuid = shared.look(owner)["records"][0]["uuid"]
    other = next(host for host in shared.lab.hosts if host != owner)
    shared.lab.module(other, "berth.kvm.instance", {"uuid": uuid, "state": "absent"})
    assert disks(shared) == ["attached.json", "owner", "root.qcow2", "seed.iso"]
    shared.play("delete")
    assert left(shared.lab) == {}


@pytest.mark.slow
def test_a_volume_goes_along_to_every_host_that_shares_its_storage(shared, image, inventory):
    """What the guest wrote on it is there after a cold migration and a revert, and stays under the guest of a live migration."""
    defined = {"berth_volumes_defined": {"data": {"size_gb": 1}}}
    path = inventory(
        {"a": vm(volumes=["data"], user_data="#cloud-config\n# lab-writer: on\n")}, catalog(image, **defined)
    )

    def play(playbook):
        return shared.lab.ansible_playbook("berth.kvm." + playbook, "--limit", "a", inventory=[path], timeout=300)

    def owners():
        told = {host: shared.lab.sh(host, VOLUME_ROLES, check=False).stdout.split() for host in shared.lab.hosts}
        return {host: roles for host, roles in told.items() if roles}

    play("create")
    first = shared.lab.guest_facts("a", timeout=180, until=lambda said: said["extra"] == "new")
    source = homes(shared.lab)["a"]
    play("cold_migrate")
    there = homes(shared.lab)["a"]
    again = shared.lab.guest_facts("a", there, timeout=180, until=lambda said: said["boots"] == first["boots"] + 1)
    assert there != source and again["extra"] == first["nonce"]
    assert owners() == {source: ["OUT"], there: ["OWN"]}
    play("revert_resize")
    assert owners() == {source: ["OWN"]}
    back = shared.lab.guest_facts("a", source, timeout=180, until=lambda said: said["boots"] == first["boots"] + 1)
    play("live_migrate")
    last = homes(shared.lab)["a"]
    after = shared.lab.guest_facts("a", last, timeout=180, until=lambda said: said["ack"] > back["ack"])
    assert (after["extra"], after["boots"]) == (first["nonce"], back["boots"])
    assert last != source and owners() == {last: ["OWN"]}
    play("delete")
    assert owners() == {last: ["OWN"]}, "it is free, and on the host that its instance was on last"


@pytest.mark.slow
def test_a_guest_that_boots_from_a_volume_goes_along_with_it_cold_and_live_and_back(shared, image, inventory):
    """It has no disk of its own, so nothing but its volume says that it is whole."""
    catalogs = catalog(image, berth_volumes_defined={"os": {"size_gb": 2}})
    path = inventory(
        {"b": vm(volumes={"os": {"boot_index": 0}}, user_data="#cloud-config\n# lab-writer: on\n")}, catalogs
    )

    def play(playbook):
        shared.lab.ansible_playbook("berth.kvm." + playbook, "--limit", "b", inventory=[path], timeout=300)
        return homes(shared.lab)["b"]

    source = play("create")
    first = shared.lab.guest_facts("b", source, timeout=180, until=lambda said: said["ack"] > 0)
    there = play("cold_migrate")
    again = shared.lab.guest_facts("b", there, timeout=180, until=lambda said: said["boots"] == 2)
    assert there != source and (again["nonce"], again["disk"]) == (first["nonce"], 2 << 30)
    assert play("revert_resize") == source
    back = shared.lab.guest_facts("b", source, timeout=180, until=lambda said: said["boots"] == 3)
    last = play("live_migrate")
    after = shared.lab.guest_facts("b", last, timeout=180, until=lambda said: said["ack"] > back["ack"])
    assert last != source and (after["nonce"], after["boots"]) == (first["nonce"], 3)
