# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks that a guest really has are looked at before it is moved, started or removed (I3)."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import fake_libvirt
import pytest
from disk_case import FLAVOR, OP, UUID, make_guest, off, overlay, record

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk_chain
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DiskChainChanged
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")


@pytest.fixture
def guest(tmp_path, monkeypatch):
    return make_guest(tmp_path, monkeypatch)


def kinds(found):
    return [difference.kind for difference in found]


def test_a_guest_on_its_own_disks_differs_in_nothing_running_or_off(guest):
    assert guest.found() == []
    off(guest)
    assert guest.found() == []


def test_a_disk_that_is_whole_in_itself_as_after_a_move_is_the_instances_own(guest):
    subprocess.run(["qemu-img", "rebase", "-f", "qcow2", "-b", "", "--", guest.file("root.qcow2")], check=True)
    assert guest.found() == []


def test_bitmaps_and_scratch_files_of_copies_and_backups_change_nothing(guest):
    root = guest.file("root.qcow2")
    for name in ("berth-abc-1", "of-a-backup-tool"):
        subprocess.run(["qemu-img", "bitmap", "--add", "-f", "qcow2", "--", root, name], check=True)
    overlay(root + ".scratch", root)
    assert guest.found() == []


def test_the_disks_of_before_a_move_may_lie_below_while_it_lasts_and_no_longer(guest):
    root, kept = guest.file("root.qcow2"), guest.file("root.qcow2.pre-" + OP)
    Path(root).rename(kept)
    overlay(root, kept)
    migration = {"old_spec": record().spec, "new_spec": record().spec}
    assert guest.found(record(op=OP, migration=migration)) == []
    assert kinds(guest.found()) == ["base"]


def test_a_disk_that_only_the_new_flavor_has_is_the_instances_own_while_the_move_lasts(guest):
    guest.use("vdd", guest.file("ephemeral0"), "raw")
    Path(guest.file("ephemeral0")).touch()
    bigger = {"flavor": dict(FLAVOR, ephemeral_gb=1)}
    assert guest.found(record(op=OP, migration={"old_spec": record().spec, "new_spec": bigger})) == []
    assert kinds(guest.found()) == ["extra"]


@pytest.mark.parametrize("place", ["beside", "elsewhere"])
@pytest.mark.parametrize("target, file", [("vda", "root.qcow2"), ("vdb", "swap")])
def test_a_snapshots_layer_over_a_running_guests_disk_is_named_with_the_blockcommit(
    guest, tmp_path, target, file, place
):
    """Never without --base: libvirt would commit down into the image, which other instances stand on."""
    layer = guest.file("root.snap1") if place == "beside" else str(tmp_path / "snap 1")
    guest.snapshot(target, layer)
    (difference,) = guest.found()
    assert (difference.kind, difference.files) == ("overlay", (layer,)) and layer in difference.text
    assert difference.command == "virsh blockcommit %s %s --base %s --active --pivot" % (UUID, target, guest.file(file))


def test_layers_upon_layers_are_all_told_and_go_into_the_disk_at_once(guest):
    guest.snapshot("vda", guest.file("root.s1"))
    guest.snapshot("vda", guest.file("root.s2"))
    (difference,) = guest.found()
    assert difference.files == (guest.file("root.s2"), guest.file("root.s1"))
    assert "--base " + guest.file("root.qcow2") in difference.command


@pytest.mark.parametrize("side", ["live", "at_rest"])
def test_running_and_lasting_definition_are_both_looked_at(guest, side):
    getattr(guest, side)["vda"] = (overlay(guest.file("root.s1"), guest.file("root.qcow2")), "qcow2")
    assert kinds(guest.found()) == ["overlay"]


@pytest.mark.follows("take_disks_back")
def test_the_commands_for_a_guest_that_is_off_bring_the_newest_data_into_its_own_disk(guest):
    """Followed word for word, but for virsh: the next start makes the definition anew."""
    off(guest)
    guest.snapshot("vda", guest.file("root.s1"))
    guest.snapshot("vda", guest.file("root.s 2"))
    write = ["qemu-io", "-f", "qcow2", "-c", "write -P 7 0 64k", guest.file("root.s 2")]
    subprocess.run(write, check=True, stdout=subprocess.DEVNULL)
    (difference,) = guest.found()
    commit, _and, undefine = difference.command.rpartition(" && ")
    assert undefine.startswith("virsh undefine %s --keep-nvram" % UUID)
    subprocess.run(commit, shell=True, check=True, stdout=subprocess.DEVNULL)
    read = ["qemu-io", "-r", "-f", "qcow2", "-c", "read -P 7 0 64k", guest.file("root.qcow2")]
    assert "failed" not in subprocess.run(read, check=True, capture_output=True, text=True).stdout
    assert sorted(path.name for path in guest.directory.iterdir()) == ["root.qcow2", "seed.iso", "swap"]
    guest.use("vda", guest.file("root.qcow2"))
    assert guest.found() == []


@pytest.mark.parametrize("path", ["/srv/data.qcow2", "rbd"])
@pytest.mark.parametrize("live, at_rest", [(True, True), (True, False), (False, True)])
def test_a_disk_that_was_attached_is_named_with_what_detaches_it_where_it_is(guest, path, live, at_rest):
    """virsh attach-disk changes the running guest alone, and virsh detach-disk refuses to look where a disk is not."""
    for disks, has in ((guest.live, live), (guest.at_rest, at_rest)):
        if has:
            disks["vdz"] = (path, "qcow2")
    (difference,) = guest.found()
    wanted = [flag for flag, has in (("--live", live), ("--config", at_rest)) if has]
    assert difference.kind == "extra"
    assert difference.command == "; ".join("virsh detach-disk %s vdz %s" % (UUID, flag) for flag in wanted)


@pytest.mark.parametrize("device", ["cdrom", "floppy"])
def test_a_drive_of_a_running_guest_is_emptied_since_it_cannot_be_detached(guest, device):
    guest.use("sda", "/srv/rescue.iso")
    guest.devices["sda"] = device
    (difference,) = guest.found()
    assert difference.command.split("; ") == [
        "virsh change-media %s sda --eject --live" % UUID,
        "virsh detach-disk %s sda --config" % UUID,
    ]


def test_a_disk_whose_image_was_removed_stops_a_start_and_a_move_and_neither_a_live_migration_nor_a_delete(guest):
    """The running QEMU has the image open: a live migration copies all of it."""
    pytest.importorskip("libvirt")
    Path(guest.image).unlink()
    (difference,) = guest.found()
    assert (difference.kind, difference.files) == ("imageless", (guest.image,))
    host = fake_libvirt.NamedHost(guest.pool)
    for check in (disk_chain.check_start, disk_chain.check):
        with pytest.raises(DiskChainChanged, match="below images in the pools of other hosts"):
            check(host, record())
    disk_chain.check(host, record(), live=True)
    disk_chain.check_delete(host, record())


@pytest.mark.parametrize("running", [True, False])
def test_a_guest_that_has_the_only_copy_of_a_removed_disk_is_not_ended_and_the_message_has_what_saves_it(
    guest, running
):
    root, host = guest.file("root.qcow2"), fake_libvirt.NamedHost(guest.pool)
    disk_chain.check_stop(host, record())
    Path(root).unlink()
    if not running:
        off(guest)
        disk_chain.check_stop(host, record())
    for check in (disk_chain.check, disk_chain.check_start, *([disk_chain.check_stop] if running else [])):
        with pytest.raises(DiskChainChanged) as raised:
            check(host, record())
        save = "virsh blockcopy %s vda --dest %s --format qcow2 --transient-job --wait --pivot" % (UUID, root)
        assert (save in raised.value.hint, "restore them from a backup" in raised.value.hint) == (running, not running)


def test_a_seed_that_was_removed_under_a_running_guest_holds_up_no_stop(guest):
    Path(guest.file("seed.iso")).unlink()
    disk_chain.check_stop(fake_libvirt.NamedHost(guest.pool), record())
    assert [(each.kind, each.command) for each in guest.found()] == [("seedless", None)]


@pytest.mark.follows("bring_image_back")
def test_a_copy_of_the_image_from_another_host_is_all_that_is_needed(guest, tmp_path):
    elsewhere = tmp_path / "another host"
    shutil.copy(guest.image, elsewhere)
    Path(guest.image).unlink()
    assert guest.found() != []
    shutil.copy(elsewhere, guest.image)
    assert guest.found() == []


@pytest.mark.follows("convert_back")
def test_a_disk_that_somebody_converted_is_named_before_anything_is_done_and_can_be_converted_back(guest):
    root = guest.file("root.qcow2")
    subprocess.run(["qemu-img", "convert", "-O", "raw", "--", root, root + ".raw"], check=True)
    Path(root + ".raw").replace(root)
    off(guest)
    (difference,) = guest.found()
    assert (difference.kind, difference.files) == ("converted", (root,))
    disk_chain.check_start(fake_libvirt.NamedHost(guest.pool), record())  # QEMU says itself that it does not start
    with pytest.raises(DiskChainChanged) as raised:
        disk_chain.check(fake_libvirt.NamedHost(guest.pool), record())
    command = re.search(r"as root on kvm1: (.*?), with the format", raised.value.hint).group(1)
    subprocess.run(command.replace("FORMAT", "raw"), shell=True, check=True)
    assert guest.found() == []


@pytest.mark.follows("delete_snapshots")
def test_a_snapshot_inside_a_disk_that_libvirt_does_not_know_goes_as_the_hint_says(guest):
    root = guest.file("root.qcow2")
    subprocess.run(["qemu-img", "snapshot", "-c", "one", root], check=True)
    with pytest.raises(DiskChainChanged) as raised:
        disk_chain.check(fake_libvirt.NamedHost(guest.pool), record())
    hint = raised.value.hint
    assert "virsh snapshot-delete %s NAME" % UUID in hint
    look, delete = re.search(r"(qemu-img snapshot -l .*?) lists them, and (qemu-img .*?) deletes", hint).groups()
    assert " one " in subprocess.run(look, shell=True, check=True, capture_output=True, text=True).stdout
    subprocess.run(delete.replace("NAME", "one"), shell=True, check=True)
    assert guest.found() == []


def test_a_delete_does_not_tell_its_own_disk_as_a_file_of_others(guest):
    pytest.importorskip("libvirt")
    subprocess.run(["qemu-img", "snapshot", "-c", "one", guest.file("root.qcow2")], check=True)
    with pytest.raises(DiskChainChanged, match="deletes the instance as it is$"):
        disk_chain.check_delete(fake_libvirt.NamedHost(guest.pool), record())


def test_a_disk_that_stands_on_another_image_is_named(guest, tmp_path):
    root, other = guest.file("root.qcow2"), str(tmp_path / "other")
    shutil.copy(guest.image, other)
    subprocess.run(["qemu-img", "rebase", "-u", "-f", "qcow2", "-F", "qcow2", "-b", other, "--", root], check=True)
    assert [(difference.kind, difference.command) for difference in guest.found()] == [
        ("base", "virsh blockpull %s vda --wait" % UUID)
    ]
    off(guest)
    (difference,) = guest.found()
    subprocess.run(difference.command, shell=True, check=True)
    assert guest.found() == []


def test_a_disk_in_another_format_is_named(guest):
    """As raw the guest would see, and could write, the header of the file."""
    guest.use("vda", guest.file("root.qcow2"), "raw")
    assert kinds(guest.found()) == ["format"]


def test_uefi_variables_elsewhere_are_named(guest, monkeypatch):
    text = "<domain><os><nvram>/var/lib/libvirt/qemu/nvram/x.fd</nvram></os></domain>"
    monkeypatch.setattr(domain, "definitions", lambda _found: (None, text))
    assert kinds(guest.found()) == ["firmware"]


def test_snapshots_inside_a_disk_stop_a_move_and_no_start(guest):
    subprocess.run(["qemu-img", "snapshot", "-c", "one", guest.file("root.qcow2")], check=True)
    guest.use("vdz", "/srv/data.qcow2")
    assert sorted(kinds(guest.found())) == ["extra", "snapshot"]
    disk_chain.check_start(fake_libvirt.NamedHost(guest.pool), record())
    with pytest.raises(DiskChainChanged):
        disk_chain.check(fake_libvirt.NamedHost(guest.pool), record())


def test_an_ejected_seed_is_no_difference(guest):
    del guest.live["vdc"]
    assert guest.found() == []


def test_without_a_definition_a_layer_beside_the_disks_may_be_what_the_guest_used_last(guest, monkeypatch):
    monkeypatch.setattr(domain, "find", lambda connection, uuid: None)
    assert guest.found() == []
    overlay(guest.file("root.s1"), guest.file("root.qcow2"))
    found = [(difference.kind, difference.command, difference.files) for difference in guest.found()]
    assert found == [("left", None, (guest.file("root.s1"),))]
    assert guest.found(record(role="OUT")) == [], "it was looked at before this host let go"


def test_the_error_names_instance_host_and_file_and_what_to_run(guest):
    guest.snapshot("vda", guest.file("root.s1"))
    with pytest.raises(DiskChainChanged) as raised:
        disk_chain.check_start(fake_libvirt.NamedHost(guest.pool), record())
    said = str(raised.value)
    for part in ("web-1", UUID, "kvm1", guest.file("root.s1"), "virsh blockcommit " + UUID, "then run the same again"):
        assert part in said
    assert raised.value.details["files"] == [guest.file("root.s1")]


def test_what_a_delete_would_remove_of_others_is_told_before(guest, tmp_path):
    """I9: what lies beside the disks goes with them, what lies elsewhere stays."""
    pytest.importorskip("libvirt")
    beside, elsewhere = guest.file("root.s1"), str(tmp_path / "s2")
    guest.snapshot("vda", beside)
    guest.snapshot("vda", elsewhere)
    with pytest.raises(DiskChainChanged) as raised:
        disk_chain.check_delete(fake_libvirt.NamedHost(guest.pool), record())
    said = "-e berth_delete_changed_disks=true deletes the instance as it is, %s with it; %s stays there" % (
        beside,
        elsewhere,
    )
    assert said in str(raised.value)
