# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What create, start, stop and delete do with an instance in a move, and that all its disks travel (R01, R11, R13, R16; I3-I5)."""

from __future__ import annotations

import json
import shlex

import pytest
from conftest import make_whole
from test_resize import cases, facts, verified

from playbooks import FLAVORS, homes, left, watched

DISKS = {
    "few": {"vcpus": 1, "memory_mb": 128, "root_gb": 1, "ephemeral_gb": 1, "swap": 16},
    "many": {"vcpus": 2, "memory_mb": 192, "root_gb": 2, "ephemeral_gb": 2, "swap": 32},
}
GIB, MIB = 1 << 30, 1 << 20
INSTANCES = "/var/lib/libvirt/berth/instances/*"
SEED = "cat %s/seed.iso | sha256sum" % INSTANCES
BIG, SMALL = {"mover_flavor": "many"}, {"mover_flavor": "few"}


@pytest.fixture(scope="module")
def resized(prepared_lab, image, tmp_path_factory):
    """An instance with all kinds of disks, resized and not confirmed -> (case, source, destination)."""
    make_whole(prepared_lab)
    case = cases.Case(prepared_lab, image, tmp_path_factory.mktemp("others"))
    tree = json.loads(case.path.read_text())
    tree["all"]["vars"]["berth_flavors"] = {**FLAVORS, **DISKS}
    case.path.write_text(json.dumps(tree))
    case.play("create", SMALL)
    source = case.owner()
    case.before = prepared_lab.guest_facts(cases.NAME, timeout=120, until=lambda said: said["ack"] > 0)
    case.seed = prepared_lab.sh(source, SEED).stdout
    prepared_lab.sh(
        source, "printf 'kept by the move' | dd of=$(echo %s/ephemeral0) bs=1M seek=900 conv=notrunc" % INSTANCES
    )
    case.play("resize", BIG)
    yield case, source, homes(prepared_lab)[cases.NAME]
    make_whole(prepared_lab)


def test_root_ephemeral_swap_and_seed_travel_and_grow(resized):
    """R01, R13."""
    case, source, destination = resized
    assert destination != source
    inside = facts(case, destination, verified)
    assert inside["verify"]["result"] == "ok" and inside["seed"] == "cidata"
    sizes = dict(inside["disks"])
    assert (sizes["vda"], sizes["vdb"], sizes["vdc"]) == (2 * GIB, 2 * GIB, 32 * MIB)
    there = "dd if=$(echo %s/ephemeral0) bs=1M skip=900 count=1 2>/dev/null | head -c 16; blkid -p -s LABEL -o value %s/swap"
    assert case.lab.sh(destination, there % (INSTANCES, INSTANCES)).stdout == "kept by the moveswap\n"


def test_a_move_changes_neither_the_seed_nor_what_a_guest_knows_itself_by(resized):
    """I8."""
    case, _source, destination = resized
    inside = facts(case, destination)
    known = ("host", "mac", "key", "nonce")  # an address comes from the network, and late
    assert {name: inside[name] for name in known} == {name: case.before[name] for name in known}
    assert case.lab.sh(destination, SEED).stdout == case.seed


def test_a_create_over_the_whole_inventory_leaves_it_as_it_is(resized):
    """I4: neither an error nor a change, though the inventory has the old flavor."""
    done = resized[0].play("create", SMALL)
    assert set(done.changed.values()) == {0}
    assert "waits for confirm_resize or revert_resize" in " ".join(done.output.split())


def test_it_is_not_stopped(resized):
    """R11, R16: as Nova, where a RESIZED instance can be confirmed, reverted or deleted."""
    refused = resized[0].play("stop", BIG, check=False)
    assert refused.rc and "Cannot stop" in refused.output and "vm_state resized" in refused.output


def test_a_locked_one_is_not_deleted(resized):
    """R10."""
    refused = resized[0].play("delete", {**BIG, "berth_locked": "the owner"}, check=False)
    assert refused.rc and "InstanceIsLocked" in refused.output
    assert len(left(resized[0].lab)) == 2


def test_a_delete_before_the_confirmation_cleans_up_both_hosts(resized):
    """I5."""
    case, source, destination = resized
    done = case.play("delete", BIG)
    assert done.changed[cases.NAME] > 0
    assert left(case.lab) == {}
    assert [case.look(host)["working"] for host in (source, destination)] == [[], []]
    assert set(case.play("delete", BIG).changed.values()) == {0}


def test_a_prepared_resize_has_its_room_and_its_guest_still_runs(resized):
    """R25: claimed on the destination; R11: and not to be stopped in the middle of it."""
    case = resized[0]
    case.play("create", SMALL)
    source = case.owner()
    case.play("prep_resize", BIG)
    roles = {
        host: [(record["role"], record["phase"]) for record in case.look(host)["records"]] for host in case.lab.hosts
    }
    assert roles[source] == [("OWN", "resizing")] and [("IN", "incoming")] in roles.values()
    assert len(case.look(source)["running"]) == 1
    refused = case.play("stop", BIG, check=False)
    assert refused.rc and "task_state resize_prep" in refused.output


def test_a_delete_by_another_controller_in_the_middle_of_a_resize_ends_both(resized):
    """I1, I5: the delete goes through, the resize that was prepared finds out."""
    case = resized[0]
    delete = case.lab.ansible_argv("berth.kvm.delete", "--limit", cases.NAME, inventory=[case.path])
    log = case.path.with_suffix(".log")
    command = "env -u BERTH_TEST_AT %s </dev/null >%s 2>&1" % (shlex.join(delete), shlex.quote(str(log)))
    resize = case.play("resize", BIG, env=watched(at={"Take the instance over": command}), check=False)
    assert resize.rc and "Take the instance over" in resize.output, log.read_text()[-3000:]
    assert left(case.lab) == {}


@pytest.mark.slow
def test_uefi_variables_travel(lab, image, tmp_path):
    """R01, R30: they lie in a file of their own, which libvirt makes at the first start, and QEMU anew after a live one."""
    nvram, at = "/var/lib/libvirt/berth/instances/*/nvram.fd", 540600  # behind all that the firmware writes at a boot
    case = cases.Case(lab, {**image, "properties": {"hw_firmware_type": "uefi"}}, tmp_path)
    case.play("create")
    case.play("live_migrate")
    source = case.owner()
    lab.sh(source, "head -c 64 %s | grep -qa _FVH" % nvram)  # not the empty file that it arrived on
    lab.sh(source, "printf 'kept by the move' | dd of=$(echo %s) bs=1 seek=%d conv=notrunc" % (nvram, at))
    case.play("cold_migrate", {"berth_shutdown_timeout": 1})  # this guest has no system that would shut down
    destination = homes(lab)[cases.NAME]
    assert destination != source
    assert lab.sh(destination, "tail -c +%d %s | head -c 16" % (at + 1, nvram)).stdout == "kept by the move"
    assert len(case.look(destination)["running"]) == 1
