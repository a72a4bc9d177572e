# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One storage or two: how it is proven, and what happens to the disks there and back (R01-R05, R13, R30; I3, I5)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk, owner
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import nvram, seed
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import disks, storage
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.moving_host import Effects
from ansible_collections.berth.kvm.plugins.module_utils.model import copy_hints, disk_hints
from ansible_collections.berth.kvm.plugins.module_utils.model import move_errors as errors  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
OP = "ab" * 16
SOURCE, DESTINATION = "11111111-3c6e-5d59-9d0b-3a1c9d7f1e2a", "22222222-3c6e-5d59-9d0b-3a1c9d7f1e2a"
MIB = 1 << 20
OLD = {"name": "old", "vcpus": 1, "memory_mb": 128, "root_gb": 1, "swap": 1}
NEW = {"name": "new", "vcpus": 1, "memory_mb": 128, "root_gb": 2, "swap": 2, "ephemeral_gb": 1}
needs_qemu_img = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")


def record(role="IN", shared=True, **changes):
    migration = {
        "attempt": 1, "type": "resize", "shared": shared, "old_spec": {"flavor": OLD}, "new_spec": {"flavor": NEW},
        "source": {"uuid": SOURCE}, "destination": {"uuid": DESTINATION},
    }  # fmt: skip
    spec = {"flavor": NEW if role == "IN" else OLD}
    parts = dict(
        uuid=UUID, name="vm", project_id="default", role=role, generation=[1, 1], token="t", phase="incoming",
        vm_state="active", spec=spec, resources={}, op=OP, migration=migration,
    )  # fmt: skip
    return Record(**{**parts, **changes})


@pytest.fixture
def pool(tmp_path):
    (tmp_path / "instances").mkdir(mode=0o711)
    (tmp_path / "instances" / UUID).mkdir(mode=0o711)
    return str(tmp_path)


@pytest.fixture
def files(pool):
    """The instance on the source: a root disk with a backing image, swap, seed, UEFI variables."""
    base = Path(pool) / "base.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "--", base, "64M"], check=True)
    directory = Path(pool) / "instances" / UUID
    image = {"format": "qcow2", "path": str(base), "virtual_size": 64 * MIB}
    for planned in disk.plan({"flavor": OLD}):
        disk.make(planned, str(directory / planned.file), image)
    (directory / seed.FILE).write_bytes(b"seed" * 512)
    (directory / nvram.FILE).write_bytes(b"vars" * 512)
    return directory


def contents(directory):
    """{name: what is in it}: of qcow2 the virtual size and the backing file, of a large file its size."""
    found = {}
    for path in sorted(directory.iterdir()):
        if "qcow2" in path.name:
            info = json.loads(
                subprocess.run(
                    ["qemu-img", "info", "--output=json", "-f", "qcow2", "--", path], capture_output=True, check=True
                ).stdout
            )
            found[path.name] = (info["virtual-size"], os.path.basename(info["backing-filename"]))
        else:
            size = path.stat().st_size
            found[path.name] = path.read_bytes() if size < 64 * MIB else size
    return found


def test_the_storage_is_one_where_the_destination_sees_the_mark_of_this_very_move(pool):
    assert not storage.is_one(pool, UUID, OP)
    storage.mark(pool, record("OWN"), SOURCE)
    assert storage.is_one(pool, UUID, OP)
    assert not storage.is_one(pool, UUID, "cd" * 16), "the mark of another move proves nothing"
    storage.unmark(pool, UUID)
    assert not storage.is_one(pool, UUID, OP)


@pytest.mark.follows("claim_grown_disk")
@pytest.mark.parametrize("name", ["root", "data-db"])
def test_a_disk_that_somebody_grew_is_refused_until_the_record_has_its_size(name):
    """It would become smaller on the destination."""

    def of(gib):
        return record(
            spec={"flavor": dict(OLD, root_gb=gib), "disks": [{"name": "db", "size_gb": gib, "bus": "virtio"}]}
        )

    arriving = [{"name": name, "format": "qcow2", "size": (3 << 30) + 1}]
    with pytest.raises(errors.CannotResizeDisk, match="disk %s of vm has 3221225473 bytes" % name) as refused:
        disks.grown(arriving, of(3))
    assert refused.value.hint == disk_hints.claim_grown_disk("vm", name, 4)
    assert disks.grown(arriving, of(4))[0]["size"] == 4 << 30


@pytest.mark.follows("put_files_away")
def test_files_without_a_record_and_a_mark_are_not_overwritten_until_they_were_put_away(pool):
    storage.check_no_files(pool, UUID)
    there = Path(pool, "instances", UUID)
    (there / "root.qcow2").write_text("")
    with pytest.raises(errors.MigrationPreCheckError, match="no record") as refused:
        storage.check_no_files(pool, UUID)
    assert refused.value.hint == copy_hints.put_files_away(str(there))
    there.rename(there.parent.parent / "elsewhere")
    storage.check_no_files(pool, UUID)


@pytest.mark.parametrize("shared", [True, False])
def test_a_storage_that_is_another_than_at_the_claim_stops_the_move(pool, shared):
    """A mount that came or went between the claim and the copy."""
    if not shared:
        storage.mark(pool, record("OWN"), SOURCE)
    with pytest.raises(errors.MigrationConflict):
        storage.check_shared_as_claimed(pool, record(shared=shared))


class Compute:
    def __init__(self, pool):
        self.pool = pool

    def pool_of(self, record):
        return self.pool


class Host:
    """What Effects need of a host for the disks."""

    connection = None

    def __init__(self, pool, uuid):
        self.compute, self.identity = Compute(pool), {"uuid": uuid, "name": "x"}


@pytest.fixture
def purge(pool, monkeypatch):
    """purge(record, host uuid) without libvirt."""
    for name in ("domain_xml.remove_guest", "gate.revoke", "transfer.close", "paths.remove_console_logs"):
        monkeypatch.setattr(disks.__name__.replace("disks", "moving_host.") + name, lambda *args: None)
    return lambda held, host_uuid: Effects(Host(pool, host_uuid)).purge(held)


@pytest.mark.parametrize(
    "held, host, owner_is",
    [
        (record("OUT"), SOURCE, DESTINATION),
        (record("OUT"), SOURCE, None),
        (record("OUT", shared=False), SOURCE, DESTINATION),
        (record("IN"), DESTINATION, SOURCE),
        (record("IN", shared=False), DESTINATION, SOURCE),
    ],
    ids=["confirm", "no owner said", "record wrong", "abort", "abort, record wrong"],
)
def test_a_purge_leaves_the_disks_of_one_storage_to_their_owner(pool, purge, held, host, owner_is):
    """I3: the record alone, and the owner's file alone, are enough to stop it."""
    root = Path(pool, "instances", UUID, "root.qcow2")
    root.write_text("all there is")
    Path(str(root) + ".incoming-1").write_text("of the move that ended")
    if owner_is:
        owner.write(pool, UUID, owner_is)
    purge(held, host)
    assert root.read_text() == "all there is"
    assert not Path(str(root) + ".incoming-1").exists()


def test_a_purge_removes_what_is_this_hosts_alone(pool, purge):
    """I5."""
    Path(pool, "instances", UUID, "root.qcow2").write_text("the old copy")
    owner.write(pool, UUID, SOURCE)
    purge(record("OUT", shared=False), SOURCE)
    assert os.listdir(os.path.join(pool, "instances")) == []


@needs_qemu_img
def test_one_storage_there_and_back_gives_what_was_there(files, pool):
    before = contents(files)
    disks.layer(pool, record())
    made = contents(files)
    assert {name: made[name] for name in before} == before, "the old disks stay as they are"
    assert {name for name in made if name not in before} == {
        "%s.incoming-1" % name for name in ("root.qcow2", "swap", "nvram.fd", "ephemeral0")
    }
    disks.swap_in(pool, record())
    after = contents(files)
    assert after["root.qcow2"] == (2 << 30, "root.qcow2.pre-" + OP)
    assert after["root.qcow2.pre-" + OP] == before["root.qcow2"]
    assert len(after["swap"]) == 2 * MIB and after["swap.pre-" + OP] == before["swap"]
    assert after["ephemeral0"] == 1 << 30
    (files / nvram.FILE).write_bytes(b"else")
    disks.restore(pool, record())
    assert contents(files) == before


@needs_qemu_img
def test_the_old_disk_is_not_taken_for_the_new_one_where_the_layer_over_it_is_missing(files, pool):
    """I3: the guest would write to what a revert goes back to."""
    with pytest.raises(errors.TransferFailed):
        disks.check_arrived(pool, record())
    disks.layer(pool, record())
    disks.check_arrived(pool, record())
    disks.swap_in(pool, record())
    disks.check_arrived(pool, record())


def test_what_boots_from_a_volume_and_has_no_disk_of_its_own_lacks_none_when_it_has_arrived(pool):
    """Its seed stays as it is: no layer is made over that, and none is waited for."""
    volumes = [{"name": "os", "size_gb": 1, "slot": 0, "boot_index": 0}]
    spec = {"flavor": {"name": "old", "vcpus": 1, "memory_mb": 128}, "project_id": "default", "volumes": volumes}
    moving = record()
    moving.migration.update(old_spec=spec, new_spec=spec)
    (Path(pool) / "instances" / UUID / seed.FILE).write_bytes(b"seed")
    ((_disk, path),) = disks.volumes_of(pool, spec)
    os.makedirs(os.path.dirname(path))
    Path(path).write_bytes(b"volume")
    disks.check_arrived(pool, moving)
    disks.swap_in(pool, moving)
    disks.check_kept(pool, moving, "restore it")
    disks.restore(pool, moving)
    assert os.listdir(Path(pool) / "instances" / UUID) == [seed.FILE]


@needs_qemu_img
@pytest.mark.parametrize("renames", range(9))
def test_a_hand_over_killed_at_any_rename_is_finished_or_undone_by_the_next_run(files, pool, monkeypatch, renames):
    """I3, I4."""
    before = contents(files)
    disks.layer(pool, record())
    real, done = disks.paths.publish, []

    def publish(*names):
        if len(done) == renames:
            raise KeyboardInterrupt
        done.append(names)
        real(*names)

    monkeypatch.setattr(disks.paths, "publish", publish)
    try:
        disks.swap_in(pool, record())
    except KeyboardInterrupt:
        pass
    monkeypatch.setattr(disks.paths, "publish", real)
    disks.swap_in(pool, record())
    assert contents(files)["root.qcow2"] == (2 << 30, "root.qcow2.pre-" + OP)
    assert not [name for name in contents(files) if "incoming" in name]
    disks.restore(pool, record())
    assert contents(files) == before


@needs_qemu_img
def test_a_backing_image_that_the_destination_lacks_is_found_before_the_guest_is_stopped(files, pool):
    """R30: a pool that is shared with base images that are not."""
    told = disks.manifest(pool, record("OWN"))
    assert [entry["name"] for entry in told] == ["root", "swap", "seed", "nvram"]
    disks.check_seen(pool, record(), told)
    (Path(pool) / "base.qcow2").unlink()
    with pytest.raises(errors.MigrationPreCheckError, match="base.qcow2"):
        disks.check_seen(pool, record(), told)


@needs_qemu_img
def test_swap_that_grows_is_made_anew_and_what_stays_as_it_is_keeps_its_bytes(files):
    swap = disk.plan({"flavor": OLD})[1]
    (files / "swap").write_bytes(b"x" * MIB)
    disks.fit(swap, str(files / "swap"), MIB)
    assert (files / "swap").read_bytes() == b"x" * MIB
    disks.fit(swap, str(files / "swap"), 2 * MIB)
    assert (files / "swap").read_bytes()[4086:4096] == b"SWAPSPACE2"


@needs_qemu_img
@pytest.mark.parametrize("at", [0, 1], ids=["root", "swap"])
def test_a_disk_that_is_larger_than_its_flavor_is_refused_and_keeps_its_bytes(files, at):
    planned = disk.plan({"flavor": OLD})[at]
    path = files / planned.file
    if planned.kind == "swap":
        path.write_bytes(b"x" * MIB)
    before, size = path.read_bytes(), disks.virtual_size(str(path), planned.format)
    with pytest.raises(errors.BerthError) as refused:
        disks.fit(planned, str(path), size - 512)
    assert str(refused.value).startswith("%s has %d bytes, the flavor only %d" % (planned.file, size, size - 512))
    assert path.read_bytes() == before
