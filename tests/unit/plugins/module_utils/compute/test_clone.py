# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance built as a clone of one that is off, by the host's own qemu-img; what libvirt copies of one that runs is in
test_backup_running.py and the integration tests."""

from __future__ import annotations

import shutil

import pytest
from backup_case import qemu, restart_libvirtd_in_a_copy
from instance_case import Case, Killed, OnHost
from small_disks import holds, web_off, write

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.backup import clone, make
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import build_many, power
from ansible_collections.berth.kvm.plugins.module_utils.model import clone_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.adopted import AdoptedNotSupported
from ansible_collections.berth.kvm.plugins.module_utils.model.clones import CloneNotPossible
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import (
    InstanceInvalidState,
    InstanceNotFound,
    TransferFailed,
)

needed = [shutil.which(name) for name in ("qemu-img", "qemu-io")]
pytestmark = pytest.mark.skipif(not all(needed), reason="QEMU's tools are not installed")
DB = {"name": "db", "size_gb": 1, "bus": "virtio"}


@pytest.fixture
def web(prepared, wanted, monkeypatch):
    case = web_off(prepared, wanted("web1"), monkeypatch)
    write(case, 7)
    write(case, 8, name="data-db.qcow2")
    return case


def disk_of(case, name="root.qcow2"):
    return case.root.parent / name


class Copied(Case):
    def instance(self, killed_at=None):
        made = super().instance(killed_at)
        made.clone = clone.build
        return made


@pytest.fixture
def copied(web, prepared, wanted):
    """web2, which is to be a clone of web1."""
    case = Copied(prepared, wanted("web2"))
    case.spec.update(uuid=instance_uuid("default", "web2"), disks=[dict(DB)], clone_of=web.uuid)
    case.uuid = case.spec["uuid"]
    return case


def events(case):
    return [each["event"] for each in case.record.history]


def test_a_clone_has_what_was_written_to_all_disks_and_is_an_instance_of_its_own(web, copied):
    assert copied.make() is True
    assert holds(disk_of(copied), 7) and holds(disk_of(copied, "data-db.qcow2"), 8)
    own, other = copied.record, web.record
    assert own.uuid != other.uuid and own.spec["instance_id"] != other.spec["instance_id"]
    assert copied.state() == ("active", None, "running", True)
    assert web.state()[0] == "stopped" and web.record.task_state is None
    assert [each["of"] for each in own.history if each["event"] == "clone"] == ["web1"]
    assert other.history[-1]["event"] == "clone" and other.history[-1]["into"] == "web2"
    write(web, 9)
    assert holds(disk_of(copied), 7)  # neither stands on the other
    assert disk_of(copied).stat().st_mode & 0o077 == 0
    assert not [each.name for each in copied.root.parent.iterdir() if each.name.startswith(paths.PARTIAL)]


def test_a_disk_of_a_clone_grows_to_what_its_request_says(web, copied):
    copied.spec["flavor"] = dict(copied.spec["flavor"], root_gb=2)
    copied.make()
    assert "2147483648" in qemu("qemu-img", "info", "--output=json", disk_of(copied)) and holds(disk_of(copied), 7)


def test_a_clone_may_have_more_disks_which_are_empty(web, copied):
    copied.spec["disks"].append(dict(DB, name="more"))
    copied.make()
    assert holds(disk_of(copied, "data-more.qcow2"), 0)


def test_all_disks_that_do_not_fit_are_told_at_once_and_nothing_is_left(web, copied):
    qemu("qemu-img", "resize", "-q", "-f", "qcow2", disk_of(web), "5G")
    copied.spec["disks"] = []
    with pytest.raises(
        CloneNotPossible, match="disk root has 1073741824 bytes, that of web1 5368709120; it has no disk data-db"
    ):
        copied.make()
    assert copied.record is None and not copied.root.parent.exists()
    assert "clone" not in events(web)


@pytest.mark.parametrize("step", ["clone copy", "clone copied", "build seed", "build define"])
def test_a_clone_that_was_cut_off_has_never_run_and_the_next_run_makes_it_anew(web, copied, step):
    with pytest.raises(Killed):
        copied.make(killed_at=step)
    assert copied.record.phase == "building" and not (copied.domain and copied.domain.isActive())
    write(web, 9)
    assert copied.instance().started("t1", copied.seed) is True
    assert holds(disk_of(copied), 9) and copied.state()[3]


def test_a_clone_that_was_cut_off_is_removed_by_a_delete(web, copied):
    with pytest.raises(Killed):
        copied.make(killed_at="clone copied")
    copied.instance().absent()
    assert copied.record is None and not copied.root.parent.exists()
    assert holds(disk_of(web), 7) and events(web)[-1] == "stop"


def test_an_instance_that_is_not_here_or_in_a_move_is_not_cloned(web, copied):
    web.instance().swap(web.record.replace(vm_state="error"))
    with pytest.raises(InstanceInvalidState, match="'clone' .* vm_state error"):
        copied.make()
    web.instance().absent()
    with pytest.raises(InstanceNotFound):
        copied.make()
    assert copied.record is None


def test_an_adopted_instance_is_not_cloned_nor_one_that_boots_from_a_volume(web):
    record = web.record
    web.instance().swap(record.replace(spec={**record.spec, "volumes": [{"name": "v", "boot_index": 0, "size_gb": 1}]}))
    with pytest.raises(CloneNotPossible, match="web1 boots from its volume v"):
        clone.checked(web.instance(), "clone")
    web.instance().swap(record.replace(spec={**record.spec, "adopted": {"definition": "", "disks": []}}))
    with pytest.raises(AdoptedNotSupported):
        clone.checked(web.instance(), "clone")


def test_a_clone_that_would_fill_the_pool_is_refused_before_it_writes(web, copied, monkeypatch):
    monkeypatch.setattr(paths, "free_bytes", lambda _path: 1000)
    with pytest.raises(CloneNotPossible, match="of 0 MiB that are free"):
        copied.make()
    assert copied.record is None


def test_a_clone_in_which_libvirtd_was_restarted_leaves_no_copy_under_way_and_nothing_of_the_new_instance(
    web, copied, monkeypatch
):
    """What QEMU keeps for it would grow with each write of the guest, until the pool is full."""
    ended, alive = restart_libvirtd_in_a_copy(web, monkeypatch), web.host.connection
    with pytest.raises(TransferFailed, match="client socket"):
        copied.make()
    assert ended == [alive, alive] and copied.record is None and not copied.root.parent.exists()


def test_a_copy_of_a_guest_that_runs_ends_before_its_build_is_killed(web, copied, monkeypatch):
    """Nobody would end what QEMU keeps for it."""
    assert clone.LONGEST < build_many.LIMIT
    power.start(web.instance(), None, None)
    monkeypatch.setattr(make.block_jobs, "check_no_others_jobs", lambda *_arguments: None)
    monkeypatch.setattr(make.left_backup, "forget", lambda _found: None)
    now = clone.watchdog.time.monotonic()

    def slow(_found, _backup, _since, _parts, limit):
        limit.check()
        monkeypatch.setattr(clone.watchdog.time, "monotonic", lambda: now + clone.LONGEST + 60)
        limit.check()

    monkeypatch.setattr(make.running, "copy", slow)
    with pytest.raises(TransferFailed, match="the copy has not ended within 14400 s"):
        copied.make()
    assert copied.record is None


def test_what_a_killed_copy_left_beside_the_disks_goes(web, copied):
    left = disk_of(web).parent / paths.scratch_file("root.qcow2")
    left.write_bytes(b"x")
    copied.make()
    assert not left.exists() and disk_of(web).exists()


def test_a_raw_disk_of_the_clone_is_written_as_raw(web, copied):
    copied.spec["flavor"] = dict(copied.spec["flavor"], extra_specs={"berth:root_disk": "raw"})
    copied.make()
    assert disk_of(copied, "root.raw").read_bytes()[:1] == b"\x07"


@pytest.mark.follows("finish_clone")
def test_a_create_finishes_a_clone_from_its_record_not_from_the_image(web, copied, monkeypatch):
    with pytest.raises(Killed):
        copied.make(killed_at="clone copy")
    real, from_image = disk.build, []
    monkeypatch.setattr(disk, "build", lambda *given: from_image.append(given) or real(*given))
    with pytest.raises(CloneNotPossible) as caught:
        OnHost.instance(copied).started("t1", copied.seed)
    assert clone_hints.finish_clone("web2") in str(caught.value) and copied.record.phase == "building"
    copied.instance().made("t1", copied.seed)
    assert from_image == [] and holds(disk_of(copied), 7)
