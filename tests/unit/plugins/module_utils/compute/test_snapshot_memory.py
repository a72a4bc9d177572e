# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots with the memory of the guest: real qcow2 files, a libvirt in memory that writes and reads its file."""

from __future__ import annotations

import re

import pytest
from data_disk_case import needs_qemu_img
from instance_case import Killed
from snapshot_case import answer_as_qemu, made_web

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk_chain
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import (
    BuildFailed,
    MemoryNotRestored,
    SnapshotIncomplete,
    SnapshotNotPossible,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import acts, domain, snapshots
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import doctor
from ansible_collections.berth.kvm.plugins.module_utils.model import migration
from ansible_collections.berth.kvm.plugins.module_utils.model import snapshots as named
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import (
    InstanceInvalidState,
    MigrationPreCheckError,
)

pytestmark = needs_qemu_img


@pytest.fixture
def qmp(monkeypatch):
    return answer_as_qemu(monkeypatch)


@pytest.fixture
def web(prepared, wanted, monkeypatch, qmp):
    return made_web(prepared, wanted, monkeypatch)


def take(web, name="one", killed_at=None):
    return snapshots.snapshot(web.instance(killed_at), name, True)


def memory(web):
    return web.root.parent / "memory-one"


def test_a_snapshot_of_a_running_guest_has_its_memory_if_asked_and_the_guest_goes_on(web, qmp):
    before = web.record
    assert snapshots.would_snapshot(web.instance(), "one", True) and web.record == before and not memory(web).exists()
    assert [take(web), take(web), web.take()] == [True, False, False]
    (entry,) = web.record.spec["snapshots"]
    assert (entry["memory"], entry["taken"], entry["disks"]) == (True, "running", ["root", "data-logs"])
    assert memory(web).exists() and web.tags() == [["berth-one"], ["berth-one"]] and qmp["orders"] == ["transaction"]
    assert web.state() == ("active", None, "running", True) and domain.state(web.host.connection, web.uuid) == "running"
    assert named.shown(web.record.spec)[0]["memory"] is True


def test_the_disks_are_of_the_moment_of_the_memory(web, monkeypatch):
    """The guest stands still while the one and the other are taken."""
    shown = []
    for owner, name in ((snapshots.snapshot_memory.qemu_nodes, "snapshot"), (domain, "save_beside")):
        plain = getattr(owner, name)

        def watched(*given, plain=plain):
            shown.append(domain.state(web.host.connection, web.uuid))
            plain(*given)

        monkeypatch.setattr(owner, name, watched)
    take(web)
    assert shown == ["paused", "paused"]


def test_its_room_is_claimed_with_that_of_the_disks_and_given_back(web):
    before = web.gb()[0]
    take(web)
    assert (
        web.record.spec["snapshots"][0]["size_gb"] == 4 and web.gb()[0] == before + 4
    )  # 3 GiB of disks, 64 MiB of memory
    assert web.delete() is True and not memory(web).exists() and web.gb()[0] == before


def test_a_revert_brings_the_guest_back_running_from_its_memory(web):
    take(web)
    web.write(2)
    web.stop()
    assert web.revert() is True and all(web.holds(1))
    assert web.domain.restored_from == str(memory(web)) and web.state() == ("active", None, "running", True)
    assert web.revert() is False and snapshots.would_revert(web.instance(), "one") is False, "again is no change"
    assert web.instance().started() is False and memory(web).exists()
    web.stop()
    assert web.revert() is True, "it can be gone back to as often as anybody likes"


@pytest.mark.parametrize("state", ["stopped", "paused"])
@pytest.mark.follows("make_active")
def test_a_guest_that_does_not_run_has_no_snapshot_with_memory(web, state):
    acts.act(web.instance(), {"state": state, "shutdown_timeout": 1}, False)
    before = web.record
    with pytest.raises(SnapshotNotPossible, match="does not run, it is") as caught:
        take(web)
    back = {"stopped": "start", "paused": "unpause"}[state]
    assert "berth.kvm.%s --limit web1" % back in caught.value.hint and web.record == before
    assert web.take() is True, "without memory it has one"


def test_a_guest_that_writes_to_what_a_snapshot_leaves_out_has_none_with_memory(web, prepared, wanted, monkeypatch):
    spec = dict(web.record.spec, flavor=dict(web.record.spec["flavor"], swap=64))
    web.instance().swap(web.record.replace(spec=spec))
    with pytest.raises(SnapshotNotPossible, match="also writes to swap"):
        take(web)


def test_a_snapshot_that_is_there_without_memory_gets_none_later(web):
    web.take()
    with pytest.raises(SnapshotNotPossible, match="another name"):
        take(web)


def test_a_memory_that_is_not_written_leaves_nothing_and_the_guest_goes_on(web):
    before = web.gb()
    web.domain.memory_fails = True
    with pytest.raises(BuildFailed, match="no space left"):
        take(web)
    assert "snapshots" not in web.record.spec and web.gb()[0] == before[0] and web.tags() == [[], []]
    assert not memory(web).exists() and domain.state(web.host.connection, web.uuid) == "running"


@pytest.fixture
def killed(web, monkeypatch):
    """The run was killed after the memory was written, before the guest went on."""
    with monkeypatch.context() as within:
        within.setattr(domain, "start", lambda *_: None)
        with pytest.raises(Killed):
            take(web, killed_at="snapshot taken")
    web.domain.suspend()
    web.domain.closed = True
    return web


@pytest.mark.parametrize("memory_asked", [True, False])
def test_a_snapshot_killed_while_the_guest_stands_still_is_finished_with_memory(killed, memory_asked):
    assert killed.record.task_state == "image_snapshot"
    assert snapshots.snapshot(killed.instance(), "one", memory_asked) is True
    assert killed.record.spec["snapshots"][0]["memory"] and memory(killed).exists()
    assert domain.state(killed.host.connection, killed.uuid) == "running"


def test_a_delete_of_what_was_killed_lets_the_guest_go_on_first(killed):
    assert killed.delete() is True and killed.tags() == [[], []] and not memory(killed).exists()
    assert domain.state(killed.host.connection, killed.uuid) == "running"


@pytest.mark.parametrize("step", ["reverted", "start permit", "restore memory", "memory restored"])
def test_a_revert_killed_at_a_step_is_finished_by_the_next_run(web, step):
    take(web)
    web.write(2)
    web.stop()
    with pytest.raises(Killed):
        web.revert(killed_at=step)
    with pytest.raises(SnapshotIncomplete):
        web.instance().started()
    if step == "memory restored":
        web.write(3)  # the guest runs
    assert web.revert() is True and all(web.holds(3 if step == "memory restored" else 1))
    assert web.state() == ("active", None, "running", True) and web.domain.starts == 2
    assert web.revert() is False


def test_memory_that_does_not_fit_is_said_before_and_the_guest_boots_from_the_disks(web):
    take(web)
    web.write(2)
    web.stop()
    web.domain.xml = re.sub("(<vcpu[^>]*>)1<", r"\g<1>2<", web.domain.xml)
    dry = web.instance()
    assert snapshots.would_revert(dry, "one") and "CPUs: 1 then, 2 now" in dry.told[0]
    assert snapshots.after_revert(dry, "one") == {}
    assert web.revert() is True and all(web.holds(1)) and web.state() == ("stopped", None, "shutdown", False)
    web.instance().started()
    assert web.domain.restored_from is None


@pytest.mark.parametrize(
    "defined, chosen",
    [
        ("<cpu.*?(</cpu>|/>)", '<cpu mode="custom"><model>Skylake</model></cpu>'),
        ("<os.*?>", "<os><loader>/usr/share/OVMF/OVMF_CODE_4M.fd</loader>"),
    ],
    ids=["cpu", "firmware"],
)
def test_what_a_start_chooses_is_that_with_which_the_memory_was_written(web, defined, chosen):
    """libvirt makes a model of host-model, and a file of firmware="efi", at a start alone. QEMU takes no other than in the memory."""
    web.domain.live = re.sub(defined, chosen, web.domain.xml, count=1, flags=re.S)
    assert web.domain.live != web.domain.xml
    take(web)
    web.stop()
    assert web.revert() is True and web.state() == ("active", None, "running", True)


@pytest.mark.follows("start_it")
def test_memory_that_libvirt_refuses_leaves_the_disks_reverted_and_says_so(web, monkeypatch):
    take(web)
    web.write(2)
    web.stop()

    def refuse(*_given):
        raise BuildFailed("bringing the guest's memory back: unknown CPU feature")

    with monkeypatch.context() as within:
        within.setattr(domain, "restore", refuse)
        with pytest.raises(MemoryNotRestored, match="unknown CPU feature") as caught:
            web.revert()
    assert "berth.kvm.start --limit web1" in caught.value.hint
    assert all(web.holds(1)) and web.state() == ("stopped", None, "shutdown", False)
    assert web.instance().started() is True


def test_a_revert_without_its_memory_is_not_where_it_should_be_and_is_tried_again(web, monkeypatch):
    take(web)
    web.stop()

    def refuse(*_given):
        raise BuildFailed("bringing the guest's memory back: no room for it now")

    with monkeypatch.context() as within:
        within.setattr(domain, "restore", refuse)
        for _again in range(2):
            with pytest.raises(MemoryNotRestored):
                web.revert()
    assert snapshots.would_revert(web.instance(), "one") is True
    assert web.revert() is True and web.state() == ("active", None, "running", True)
    assert web.revert() is False


def test_memory_that_somebody_removed_or_damaged_keeps_nobody_from_the_disks(web):
    take(web)
    for damage, said in ((lambda: memory(web).write_text("half"), "cannot be read"), (memory(web).unlink, "is gone")):
        web.write(2)
        web.stop()
        damage()
        dry = web.instance()
        assert snapshots.would_revert(dry, "one") and said in dry.told[0] and snapshots.after_revert(dry, "one") == {}
        assert web.revert() is True and all(web.holds(1)) and web.state() == ("stopped", None, "shutdown", False)
        assert web.revert() is False
        web.instance().started()


def test_a_guest_that_is_back_with_its_memory_runs_though_the_file_is_gone_since(web):
    take(web)
    web.stop()
    with pytest.raises(Killed):
        web.revert(killed_at="memory restored")
    memory(web).unlink()
    assert web.revert() is True and web.state() == ("active", None, "running", True)


def test_a_check_run_says_that_the_guest_would_run(web):
    take(web)
    web.stop()
    params = {"state": "snapshot_reverted", "snapshot": "one", "mend": False}
    outcome = acts.outcome_of(web.instance(), params, True)
    assert outcome["instance"]["state"] == "running" and web.state()[3] is False


def test_the_file_is_no_strange_one_beside_the_disks_and_is_missed(web):
    take(web)
    disk_chain.check_beside(web.host, web.record)
    memory(web).unlink()
    assert [each["said"] for each in doctor._snapshots(web.host, [web.record])] == [
        "it is not whole in memory of web1: snapshot one"
    ]
    with pytest.raises(SnapshotIncomplete, match="not in memory"):
        take(web)
    assert web.delete() is True


@pytest.mark.follows("delete_one")
def test_no_move_takes_it_to_another_host(web):
    take(web)
    with pytest.raises(MigrationPreCheckError, match="snapshots with memory stay on their host: one") as caught:
        migration.check_no_memory(web.record)
    assert "berth.kvm.delete_snapshot --limit web1 -e berth_snapshot=one" in str(caught.value)
    web.delete()
    migration.check_no_memory(web.record)


def test_a_running_guest_is_not_reverted_to_an_earlier_one(web):
    take(web)
    with pytest.raises(InstanceInvalidState):
        web.revert()
