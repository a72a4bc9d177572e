# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One instance on one host: what create, start, stop and delete do there, and what they leave alone."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil

import fake_libvirt
import pytest
from build_steps import BUILD_STEPS
from instance_case import OTHER, Killed
from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import owner
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import (
    BootGateMissing,
    DeletionFinished,
    HostIdentityChanged,
    InstanceBusy,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import gate, network
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.module_utils.conductor import outcome_of_create
from ansible_collections.berth.kvm.plugins.module_utils.model import hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError, InstanceExists
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import CLAIM
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import InstanceInvalidState, InstanceNotFound
from ansible_collections.berth.kvm.plugins.module_utils.model.unknown_names import NetworkNotFound


def test_a_claim_becomes_a_running_guest_and_again_is_no_change(web):
    assert web.make() is True
    assert web.state() == ("active", None, "running", True)
    assert web.steps == BUILD_STEPS
    assert web.instance().started() is False
    assert web.domain.starts == 1


def test_what_was_done_with_it_is_in_its_history(web):
    """A25, C32."""
    web.make()
    web.instance().stopped(1)
    assert [event["event"] for event in web.record.history][-3:] == ["build", "start", "stop"]


def test_it_is_stopped_started_and_removed_and_each_again_is_no_change(web):
    web.make()
    assert [web.instance().stopped(1), web.instance().stopped(1)] == [True, False]
    assert web.state() == ("stopped", None, "shutdown", False)
    assert [web.instance().started(), web.instance().started()] == [True, False]
    assert web.state() == ("active", None, "running", True)
    assert [web.instance().absent(), web.instance().absent()] == [True, False]
    assert (web.record, web.domain, web.root.exists()) == (None, None, False)
    with pytest.raises(InstanceNotFound):
        web.instance().stopped(1)


def spoil(host):
    os.unlink(host.hook)


@pytest.mark.parametrize("state", ["claimed", "stopped", "off after a power cut"])
def test_nothing_is_started_where_the_gate_was_deleted(web, boot, state):
    """A guest that starts without the gate could be started by anybody after its instance has moved away."""
    web.claim()
    if state != "claimed":
        web.instance().started("t1", web.seed)
        web.instance().stopped(1) if state == "stopped" else (web.host.connection.lose_power(), boot("two"))
    spoil(web.host)
    with pytest.raises(BootGateMissing, match="--limit kvm1"):
        web.instance().started("t1", web.seed)
    assert not (web.domain and web.domain.isActive()) and not gate.is_permitted(web.uuid, web.host.run_dir)
    assert web.record is None or web.record.role != CLAIM, "a host that cannot build gives the claim back"


def test_create_leaves_an_instance_as_it_is_found(web, boot):
    """Who stopped it had a reason, and what ended a guest wants to be looked at."""
    web.make()
    assert web.instance().made() is web.instance().would_make() is False
    endings = {
        "stopped on purpose": lambda: web.instance().stopped(1),
        "powered off from inside": lambda: web.domain.end(fake_libvirt.SHUT_DOWN),
        "crashed": lambda: web.domain.end(fake_libvirt.CRASH),
        "paused": lambda: setattr(web.domain, "now", fake_libvirt.PAUSED),
        "its host lost power": lambda: (web.host.connection.lose_power(), boot("two")),
        "its definition is lost": web.host.connection.domains.clear,
    }
    for how, end in endings.items():
        web.instance().started()
        end()
        before, starts = (web.record, web.state()), web.domain and web.domain.starts
        assert web.instance().made("t2", web.seed) is web.instance().would_make("t2") is False, how
        assert (web.record, web.state(), web.domain and web.domain.starts) == (*before, starts), how


@pytest.mark.parametrize("cut", [False, True], ids=["process killed", "power cut"])
@pytest.mark.parametrize("step", BUILD_STEPS)
def test_create_ends_what_an_interrupted_create_began(web, boot, step, cut):
    with pytest.raises(Killed):
        web.claim()
        web.instance(step).made("t1", web.seed)
    for again in ("t1", None, None):  # killed at the start once more
        if cut:
            web.host.connection.lose_power()
            boot("after %s" % again)
        with contextlib.suppress(Killed):
            web.instance("start guest").made("t1", web.seed)
    assert web.instance().made("t1", web.seed) is True
    assert web.state() == ("active", None, "running", True)
    assert web.instance().made("t1", web.seed) is False


def test_a_start_that_was_interrupted_is_not_for_create_to_end(web):
    web.make()
    web.instance().stopped(1)
    with pytest.raises(Killed):
        web.instance("start permit").started()
    assert web.instance().made() is False and not web.domain.isActive()
    assert web.instance().started() is True


def line(web, **more):
    """The line of create's report for it."""
    parts = {
        "state": "active",
        "host": "kvm1",
        "spec": web.spec,
        "attempts": [],
        "existing": True,
        "why": "is there",
        "error": None,
    }
    instance = {**parts, "result": web.instance().summary(), **more}
    return outcome_of_create.outcomes({"instances": {"web1": instance}, "hosts": {}})[0].why


@pytest.mark.follows("run_it")
def test_the_line_of_an_instance_that_is_off_says_why_and_what_starts_it(web):
    web.make()
    assert line(web).endswith("is there")
    web.domain.end(fake_libvirt.CRASH)
    assert line(web).endswith("off, though nobody stopped it with berth.kvm.stop; " + hints.run_it("start"))
    web.domain.now = fake_libvirt.PAUSED
    assert line(web).endswith("paused; " + hints.run_it("start"))
    web.instance().stopped(1)
    assert line(web).endswith("stopped; run berth.kvm.start")
    assert line(web, locked="ann").endswith("stopped; locked")
    web.instance().started()
    assert line(web).endswith("is there")


CHANGES = {
    "create": lambda instance, seed: instance.made("t1", seed),
    "would create": lambda instance, _seed: instance.would_make("t1"),
    "start": lambda instance, _seed: instance.started(),
    "would start": lambda instance, _seed: instance.would_start(),
    "stop": lambda instance, _seed: instance.stopped(1),
    "would stop": lambda instance, _seed: instance.would_stop(),
    "delete": lambda instance, _seed: instance.absent(),
    "would delete": lambda instance, _seed: instance.would_remove(),
}


@pytest.mark.parametrize("change", [{"op": "op1"}, {"role": "OUT", "phase": "keep"}, {"phase": "resized"}], ids=str)
@pytest.mark.parametrize("how", CHANGES)
def test_what_is_in_a_move_is_not_changed(web, how, change):
    """I1: the record here may not be that of the owner any more."""
    web.make()
    before = plant(web.host.store, web.record.replace(**change))
    with pytest.raises(InstanceInvalidState, match=before.phase):
        CHANGES[how](web.instance(), web.seed)
    assert (web.record, bool(web.domain.isActive()), web.root.exists()) == (before, True, True)


LOCKED = {name: change for name, change in CHANGES.items() if not name.startswith("would")}
LOCKED["filter"] = lambda instance, _seed: instance.filtered([{"mac": "52:54:00:00:00:07", "filter": "f"}])


@pytest.mark.parametrize("how", LOCKED)
def test_a_change_waits_for_another_run_as_long_as_its_own_run_says(web, how, monkeypatch):
    web.make()
    waited, lock = [], web.host.store.instance_lock

    def instance_lock(uuid, timeout=None):
        waited.append(timeout)
        return lock(uuid, timeout=0)

    monkeypatch.setattr(web.host.store, "instance_lock", instance_lock)
    with Store(web.host.store.state_dir).instance_lock(web.uuid), pytest.raises(InstanceBusy):
        LOCKED[how](web.instance(), web.seed)
    assert waited == [web.instance().timeout]


@pytest.mark.parametrize("how", [name for name in CHANGES if name.startswith("would")])
def test_check_mode_changes_nothing_whatever_is_found(web, how):
    for step in (None, "delete disks"):
        if step is None:
            web.make()
        else:
            with pytest.raises(Killed):
                web.instance(step).absent()
        before = (web.record, web.domain and web.domain.now, web.root.exists())
        with contextlib.suppress(BerthError):  # half deleted, it cannot be stopped
            CHANGES[how](web.instance(), web.seed)
        assert (web.record, web.domain and web.domain.now, web.root.exists()) == before


def test_a_guest_that_was_stopped_may_be_started_by_nobody_else(web):
    """A guest without a permit is refused by the gate: neither by hand nor by autostart does it come back."""
    web.make()
    assert gate.is_permitted(web.uuid, web.host.run_dir)
    web.instance().stopped(1)
    assert not gate.is_permitted(web.uuid, web.host.run_dir)
    with pytest.raises(fake_libvirt.libvirtError):
        web.domain.createWithFlags()


def test_a_stop_is_written_down_before_the_guest_is_stopped(web):
    """Else a power cut in between would have it started again."""
    web.make()
    with pytest.raises(Killed):
        web.instance("stop").stopped(1)
    assert web.state() == ("active", "powering-off", "shutdown", True)


@pytest.mark.parametrize("step", ["delete permit", "delete domain", "delete disks", "delete record"])
def test_a_delete_that_was_begun_is_never_taken_for_an_instance_that_is_whole(web, step):
    web.make()
    with pytest.raises(Killed):
        web.instance(step).absent()
    assert (web.record.phase, web.record.task_state) == ("deleting", "deleting")
    with pytest.raises(DeletionFinished):
        web.instance().made("t1", web.seed)
    assert (web.record, web.domain, web.root.parent.exists()) == (None, None, False)


def test_a_delete_leaves_no_permit(web):
    web.make()
    web.instance().absent()
    assert not gate.is_permitted(web.uuid, web.host.run_dir)


def test_a_delete_without_a_record_removes_what_berth_left_and_nothing_of_others(web):
    web.make()
    plant_nothing(web)
    assert web.instance().would_remove() is True
    assert web.instance().remains() == ["domain " + web.domain.name(), str(web.root.parent)]
    assert web.instance().absent() is True
    assert (web.domain, web.root.parent.exists()) == (None, False)
    foreign = web.host.connection.defineXMLFlags("<domain><name>theirs</name><uuid>%s</uuid></domain>" % web.uuid)
    assert web.instance().would_remove() is False
    with pytest.raises(InstanceExists):
        web.instance().absent()
    assert web.domain is foreign


def plant_nothing(web):
    """The record is lost, all else is there."""
    shutil.rmtree(pathlib.Path(web.host.store.state_dir) / "instances" / web.uuid)


def test_a_host_that_libvirt_calls_another_one_builds_and_starts_nothing(web):
    """A copied system disk: the other machine has the same records, and may run the same guests."""
    web.make()
    web.instance().stopped(1)
    web.host.uuid = OTHER
    before = web.record
    with pytest.raises(BerthError, match=OTHER) as refused:
        web.instance().started()
    assert isinstance(refused.value, HostIdentityChanged)
    assert (web.record.generation[0], bool(web.domain.isActive()), web.root.exists()) == (
        before.generation[0],
        False,
        True,
    )


def test_without_a_record_its_disks_go_from_every_pool_where_they_are_this_hosts(web, tmp_path):
    """I5, I9: which pool it was in nobody knows any more."""
    for name, whose in (("fast", web.host.uuid), ("shared", "another-host"), ("unsaid", None)):
        place = tmp_path / name / "instances" / web.uuid
        place.mkdir(parents=True, mode=0o711)
        place.chmod(0o711)
        (place / "root.qcow2").write_text("a disk")
        if whose:
            owner.write(str(tmp_path / name), web.uuid, whose)
        web.host.connection.pools[name] = str(tmp_path / name)
    assert web.instance().would_remove() is True, "check mode tells of them"
    assert web.instance().remains() == [str(tmp_path / "fast" / "instances" / web.uuid)]
    assert web.instance().absent() is True
    left = {name: (tmp_path / name / "instances" / web.uuid).exists() for name in ("fast", "shared", "unsaid")}
    assert left == {"fast": False, "shared": True, "unsaid": True}
    assert web.instance().would_remove() is False
    assert web.instance().absent() is False


def test_a_build_goes_through_novas_task_states(web):
    """A18"""
    seen = []
    web.claim()
    built = web.instance()
    swap = built.swap
    built.swap = lambda record: seen.append(record.task_state) or swap(record)
    built.started("t1", web.seed)
    assert list(dict.fromkeys(seen)) == ["networking", "block_device_mapping", "spawning", None]


def test_a_build_that_lacks_its_network_has_touched_no_disk(web, monkeypatch):
    """A18: task state networking comes before block_device_mapping."""
    found = []

    def refuse(*_given):
        found.append((web.record.task_state, web.root.exists()))
        raise NetworkNotFound("this host has no bridge br9", retryable=True)

    monkeypatch.setattr(network, "check", refuse)
    with pytest.raises(NetworkNotFound):
        web.make()
    assert found == [("networking", False)] and web.record is None
