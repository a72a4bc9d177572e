# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power as the inventory names it, reboot and lock, on a host with a libvirt in memory."""

from __future__ import annotations

import contextlib
from pathlib import Path

import fake_libvirt
import pytest
from instance_case import Killed
from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.compute.connection import LibvirtTimeout, LibvirtUnavailable
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import (
    BootGateMissing,
    BuildFailed,
    DiskChainChanged,
    DiskIOError,
    HostNotPrepared,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import (
    acts,
    agent,
    domain,
    gate,
    network,
    power,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.power import recover
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import journal
from ansible_collections.berth.kvm.plugins.module_utils.conductor import outcome_of_create
from ansible_collections.berth.kvm.plugins.module_utils.model import hints, host_hints, migration
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InstanceIsLocked
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import InstanceInvalidState
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record
from ansible_collections.berth.kvm.plugins.module_utils.model.unknown_names import NetworkNotFound

ON, OFF = ("active", None, "running", True), ("stopped", None, "shutdown", False)


def create(web, power_state, killed_at=None, token="t1"):
    return power.converge(web.instance(killed_at), token, web.seed, power_state, 1)


def act(web, state, dry=False, **more):
    params = {"token": None, "seed": None, "power_state": None, "shutdown_timeout": 1, "after": None,
              "changed_disks": False, "reboot": "soft", "reason": "", "state": state, **more}  # fmt: skip
    return acts.act(web.instance(), params, dry)


# ---- berth_state


@pytest.mark.parametrize("step", [None, "build begin", "build disks", "build seed", "build define", "build active"])
def test_a_new_instance_that_is_to_be_stopped_is_made_and_left_off_whatever_ends_the_run(web, step):
    web.claim()
    with contextlib.suppress(Killed):
        create(web, "shutdown", step)
    create(web, "shutdown")
    assert web.state() == OFF and web.domain.starts == 0 and web.root.exists()
    assert create(web, "shutdown") is False and not power.would_converge(web.instance(), None, "shutdown")
    assert web.instance().started() is True and web.state() == ON


@pytest.mark.parametrize("step", ["start permit", "start guest", "start done"])
def test_what_was_not_started_yet_is_off_where_the_inventory_changed_its_mind(web, step):
    web.claim()
    with pytest.raises(Killed):
        create(web, "running", step)
    assert power.would_converge(web.instance(), None, "shutdown") is True
    assert create(web, "shutdown") is True and web.state() == OFF
    assert create(web, "shutdown") is False


ENDINGS = {
    "stopped on purpose": lambda web: web.instance().stopped(1),
    "powered off from inside": lambda web: web.domain.end(fake_libvirt.SHUT_DOWN),
    "crashed": lambda web: web.domain.end(fake_libvirt.CRASH),
    "paused": lambda web: setattr(web.domain, "now", fake_libvirt.PAUSED),
    "runs": lambda web: None,
}


@pytest.mark.parametrize("how", ENDINGS)
@pytest.mark.parametrize("wanted_state, after", [("running", ON), ("shutdown", OFF)])
def test_create_brings_what_is_there_to_the_state_that_the_inventory_names(web, how, wanted_state, after):
    web.make()
    ENDINGS[how](web)
    change = (how, wanted_state) not in (("runs", "running"), ("stopped on purpose", "shutdown"))
    assert power.would_converge(web.instance(), None, wanted_state) is change
    assert [create(web, wanted_state), create(web, wanted_state)] == [change, False]
    assert web.state() == after and web.domain.now != fake_libvirt.PAUSED


@pytest.mark.parametrize("wanted_state, end", [("running", "stopped on purpose"), ("shutdown", "runs")])
def test_create_leaves_a_locked_instance_as_it_is_found(web, wanted_state, end):
    web.make()
    ENDINGS[end](web)
    power.lock(web.instance(), "ann@ctl", "")
    before = web.record, web.state()
    assert power.would_converge(web.instance(), None, wanted_state) is create(web, wanted_state) is False
    assert (web.record, web.state()) == before


@pytest.mark.parametrize(
    "parts, said",
    [
        ({"berth_state": "stopped"}, ("unchanged", "stopped, as the inventory says")),
        ({"berth_state": "stopped", "changed": True}, ("stopped", "inventory says berth_state: stopped")),
        ({"berth_state": "active", "locked": "ann"}, ("unchanged", "stopped; locked")),
        ({}, ("unchanged", "stopped; run berth.kvm.start")),
    ],
)
def test_the_line_of_an_instance_says_whether_its_power_is_what_the_inventory_names(web, parts, said):
    web.make()
    web.instance().stopped(1)
    known = {
        "name": "web1", "uuid": web.uuid, "state": "active", "host": "kvm1", "attempts": [], "error": None,
        "existing": True, "spec": web.spec, "why": "is there", "result": web.instance().summary(), **parts,
    }  # fmt: skip
    outcome = outcome_of_create.outcomes({"instances": {"web1": known}, "hosts": {}})[0]
    assert (outcome.state, outcome.why) == said


@pytest.mark.parametrize("answers, grace, told", [(False, 1, True), (False, 0, False), (True, 1, False)])
def test_a_guest_that_had_to_be_ended_though_it_was_asked_to_shut_down_is_told(web, answers, grace, told):
    web.make()
    web.domain.answers = answers
    for does in (lambda it: it.stopped(grace), lambda it: power.reboot(it, not grace, grace)):
        web.instance().started()
        instance = web.instance()
        does(instance)
        assert instance.told == ["it did not shut down within 1 s and was ended"] * told


# ---- reboot


@pytest.mark.parametrize("hard, answers, forced", [(False, True, False), (False, False, True), (True, False, False)])
def test_a_reboot_ends_the_guest_and_starts_it(web, hard, answers, forced):
    web.make()
    web.domain.answers = answers
    assert power.reboot(web.instance(), hard, 0.2) is forced
    assert web.state() == ON and web.domain.starts == 2
    event = [event for event in web.record.history if event["event"] == "reboot"][0]
    assert (event["hard"], event["forced"]) == (hard, forced)


@pytest.mark.parametrize("hard", [False, True])
def test_only_a_soft_reboot_freezes_the_file_systems_of_a_guest_that_it_ends(web, monkeypatch, hard):
    """As in Nova, a hard one is for guests that are not to be asked anything."""
    web.make()
    web.domain.answers, frozen = False, []
    monkeypatch.setattr(agent, "freeze", lambda found: frozen.append(found.UUIDString()))
    power.reboot(web.instance(), hard, 0.05)
    assert frozen == ([] if hard else [web.uuid])


@pytest.mark.parametrize("power_lost", [False, True], ids=["process killed", "power cut"])
@pytest.mark.parametrize("then", ["recover", "start", "reboot"])
@pytest.mark.parametrize("step", ["reboot", "rebooted off", "start permit", "start guest", "start done"])
def test_a_guest_whose_reboot_was_interrupted_is_known_to_run_and_is_started(web, boot, step, then, power_lost):
    web.make()
    with pytest.raises(Killed):
        power.reboot(web.instance(step), False, 1)
    if power_lost:
        web.host.connection.lose_power()
        boot("two")
    off = not web.domain.isActive()
    permitted = gate.is_permitted(web.uuid, web.host.run_dir)
    assert web.record.power_state == "running" and not (off and permitted and step.startswith("reboot"))
    {
        "recover": lambda: recover(web.instance()),
        "start": lambda: web.instance().started(),
        "reboot": lambda: power.reboot(web.instance(), False, 1),
    }[then]()
    if then == "recover" and step in ("start guest", "start permit") and not power_lost:
        web.instance().started()  # permitted in this boot: whoever starts it again is a person
    if not web.domain.isActive() or web.record.task_state:
        web.instance().started()
    assert web.state() == ON


@pytest.mark.parametrize(
    "error, comes_up, task",
    [
        (BuildFailed("no seed"), False, None),
        (BuildFailed("the monitor broke"), True, "powering-on"),
        (LibvirtTimeout("no answer"), False, "powering-on"),
        (LibvirtUnavailable("the connection broke"), False, "powering-on"),
    ],
)
def test_a_start_that_failed_for_certain_leaves_no_task_behind_so_that_the_instance_can_move(
    web, monkeypatch, error, comes_up, task
):
    web.make()
    web.instance().stopped(1)

    def start(connection, uuid):
        if comes_up:
            connection.domains[uuid].createWithFlags()
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(domain, "start", start)
        with pytest.raises(type(error)):
            web.instance().started()
    assert (web.record.power_state, web.record.task_state) == ("running", task)
    assert web.record.faults[-1]["code"] == type(error).__name__
    assert web.instance().started() is True and web.state() == ON


@pytest.mark.follows("end_it")
@pytest.mark.parametrize("step, end", [("stop", "stopped"), ("rebooted off", "started")])
def test_what_ended_half_way_is_ended_by_the_playbook_that_the_doctor_names(web, step, end):
    web.make()
    with pytest.raises(Killed):
        power.reboot(web.instance(step), False, 1) if end == "started" else web.instance(step).stopped(1)
    assert web.record.task_state == {"stopped": "powering-off", "started": "rebooting"}[end]
    act(web, end)
    assert web.state() == {"stopped": OFF, "started": ON}[end] and web.record.task_state is None


@pytest.mark.follows("start_it")
def test_what_was_stopped_is_not_rebooted_but_started(web):
    web.make()
    web.instance().stopped(1)
    for change in (lambda: power.reboot(web.instance(), True, 1), lambda: power.would_reboot(web.instance(), True)):
        with pytest.raises(InstanceInvalidState, match="vm_state stopped") as raised:
            change()
        assert raised.value.hint == hints.make_active("web1", "start") and web.state() == OFF
    assert web.instance().started() is True
    assert power.would_reboot(web.instance(), False) is True


def test_a_paused_guest_would_not_hear_that_it_shall_reboot(web):
    web.make()
    web.domain.now = fake_libvirt.PAUSED
    with pytest.raises(InstanceInvalidState, match="power_state paused") as raised:
        power.reboot(web.instance(), False, 1)
    assert raised.value.hint == hints.let_go_on("web1") and web.domain.now == fake_libvirt.PAUSED
    power.reboot(web.instance(), True, 1)
    assert web.state() == ON and web.domain.starts == 2


@pytest.mark.follows("failing_disk")
def test_a_guest_whose_disk_still_fails_is_not_called_started_and_goes_on_when_there_is_room(web, monkeypatch):
    monkeypatch.setattr(domain, "GOES_ON", 0.1)
    web.make()
    web.domain.now, web.domain.reason, web.domain.disk_fails = fake_libvirt.PAUSED, fake_libvirt.IO_ERROR, True
    for _again in (1, 2):
        with pytest.raises(DiskIOError, match="paused again at once") as raised:
            web.instance().started()
        assert "virsh domblkerror %s" % web.uuid in raised.value.hint and web.domain.now == fake_libvirt.PAUSED
    web.domain.disk_fails = False
    assert web.instance().started() is True
    assert web.state() == ON and web.domain.starts == 1
    assert web.instance().started() is False


@pytest.mark.parametrize("end", ["crashed", "powered off from inside"])
def test_a_reboot_starts_a_guest_that_is_off_and_was_not_stopped(web, end):
    web.make()
    ENDINGS[end](web)
    power.reboot(web.instance(), False, 1)
    assert web.state() == ON


def test_a_guest_that_could_not_be_started_again_is_not_ended_for_a_reboot(web, monkeypatch):
    web.make()

    def changed(*_args):
        raise DiskChainChanged("a snapshot's layer")

    with monkeypatch.context() as patched:
        patched.setattr(power.startable, "check", changed)
        for dry in (False, True):
            with pytest.raises(DiskChainChanged):
                act(web, "rebooted", dry)
    Path(web.host.hook).unlink()
    with pytest.raises(BootGateMissing):
        act(web, "rebooted")
    assert web.state() == ON and web.domain.starts == 1


@pytest.mark.parametrize("state", ["stopped", "rebooted"])
def test_a_guest_that_has_the_only_copy_of_its_disk_is_neither_stopped_nor_rebooted(web, state):
    web.make()
    web.root.unlink()
    for dry in (False, True):
        with pytest.raises(DiskChainChanged, match="virsh blockcopy"):
            act(web, state, dry)
    assert web.state() == ON and web.domain.starts == 1


@pytest.mark.follows("start_pool")
def test_a_pool_that_somebody_stopped_is_named_with_its_host_and_what_starts_it(web):
    web.make()
    web.host.connection.stopped_pools.add("berth")
    act(web, "stopped")  # for which no pool is needed
    with pytest.raises(HostNotPrepared, match="storage pool berth is not an active directory") as refused:
        act(web, "started")
    assert refused.value.hint == host_hints.start_pool("kvm1", "berth", True)
    assert "virsh pool-start berth" in refused.value.hint and "prepare_hosts --limit kvm1" in refused.value.hint
    web.host.connection.stopped_pools.clear()
    act(web, "started")
    assert web.state() == ON


@pytest.mark.follows("bring_network_back")
def test_a_guest_whose_bridge_is_gone_is_not_ended_for_a_reboot_and_both_work_when_it_is_back(
    web, monkeypatch, tmp_path
):
    """Following the other half of the hint, a move, needs two hosts: see test_missing_networks.py and the lab."""
    web.make()
    monkeypatch.setattr(network, "SYS_NET", str(tmp_path))
    nic = {"type": "bridge", "source": "br7", "mac": "02:00:00:00:00:07"}
    plant(web.host.store, web.record.next(spec=dict(web.record.spec, networks=[nic])))
    for dry in (False, True):
        with pytest.raises(NetworkNotFound, match=r"web1 .* cannot start on kvm1, which has no bridge br7") as refused:
            act(web, "rebooted", dry)
        assert refused.value.hint == host_hints.bring_network_back("kvm1", "web1")
    assert web.state() == ON and web.domain.starts == 1
    act(web, "stopped")
    with pytest.raises(NetworkNotFound):
        act(web, "started")
    (tmp_path / "br7" / "bridge").mkdir(parents=True)
    act(web, "started")
    act(web, "rebooted")
    assert web.state() == ON and web.domain.starts == 3


@pytest.mark.parametrize("change", [{"op": "ab" * 16, "phase": "resizing"}, {"role": "OUT", "phase": "keep"}])
def test_what_moves_is_neither_rebooted_nor_locked(web, change):
    web.make()
    plant(web.host.store, web.record.next(**change))
    before = web.record, web.state()
    for state in ("rebooted", "locked", "unlocked"):
        for dry in (False, True):
            with pytest.raises(InstanceInvalidState):
                act(web, state, dry)
    assert (web.record, web.state()) == before


# ---- lock


@pytest.mark.follows("unlock")
@pytest.mark.parametrize("dry", [False, True])
@pytest.mark.parametrize("state", ["started", "stopped", "rebooted", "absent"])
def test_a_locked_instance_is_not_changed_until_it_is_unlocked(web, state, dry):
    web.make()
    journal.act_for({"who": "ann@ctl", "run": "r-1"})
    assert act(web, "locked", reason="its disk is looked at") is True
    before = web.record, web.state()
    with pytest.raises(InstanceIsLocked) as raised:
        act(web, state, dry)
    assert "ann@ctl since 2" in str(raised.value) and "its disk is looked at" in str(raised.value)
    assert raised.value.hint == hints.unlock("web1") and "berth.kvm.unlock --limit web1" in hints.unlock("web1")
    assert (web.record, web.state()) == before
    with pytest.raises(InstanceIsLocked):
        migration.check_begin(web.record, "resize", web.spec, "running")
    assert [act(web, "unlocked"), act(web, "unlocked")] == [True, False]
    act(web, state, dry)


def test_who_locked_first_stays_and_anybody_unlocks(web):
    web.make()
    journal.act_for({"who": "ann@ctl", "run": "r-1"})
    assert [act(web, "locked", dry=True), act(web, "locked", reason="mine"), act(web, "locked")] == [True, True, False]
    journal.act_for({"who": "bob@ctl", "run": "r-2"})
    assert act(web, "locked", dry=True) is act(web, "locked", reason="no, mine") is False
    assert web.record.lock["by"] == "ann@ctl" and web.instance().summary()["locked"].endswith(": mine")
    assert act(web, "unlocked", dry=True) is True and web.record.lock
    assert act(web, "unlocked") is True and web.instance().summary()["locked"] is None
    said = [(event["event"], event["who"], event["run"]) for event in web.record.history if "lock" in event["event"]]
    assert said == [("lock", "ann@ctl", "r-1"), ("unlock", "bob@ctl", "r-2")]


def test_a_locked_instance_is_recovered_for_running_is_what_it_did(web, boot):
    web.make()
    power.lock(web.instance(), "ann@ctl", "")
    web.host.connection.lose_power()
    boot("two")
    assert act(web, "recovered") is True and web.state() == ON


def test_a_record_without_a_lock_is_written_as_before_and_one_of_before_is_read(web):
    web.make()
    assert "lock" not in web.record.to_dict() and Record.from_dict(web.record.to_dict()).lock is None
    power.lock(web.instance(), "ann@ctl", "why")
    assert Record.from_dict(web.record.to_dict()) == web.record
