# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pause, unpause, suspend and resume on a host with a libvirt in memory."""

from __future__ import annotations

import contextlib
import os

import fake_libvirt
import pytest
from instance_case import Killed

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import (
    BuildFailed,
    NoRoomForMemory,
    SavedMemoryGone,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import acts, domain, gate, pause, power
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import doctor
from ansible_collections.berth.kvm.plugins.module_utils.model import hints, host_hints, migration
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InstanceIsLocked
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import InstanceInvalidState

ON, OFF = ("active", None, "running", True), ("stopped", None, "shutdown", False)
PAUSED, SUSPENDED = ("paused", None, "paused", True), ("suspended", None, "shutdown", False)
AFTER = {"paused": PAUSED, "unpaused": ON, "suspended": SUSPENDED, "resumed": ON}
BEFORE = {"paused": (), "unpaused": ("paused",), "suspended": (), "resumed": ("suspended",)}


def act(web, state, dry=False, killed_at=None, **more):
    params = {"token": None, "seed": None, "power_state": None, "shutdown_timeout": 0.05, "after": None, "moved_by": None,
              "disks": [], "volumes": None, "changed_disks": False, "reboot": "soft", "reason": "", "state": state,
              "mend": False, "spec": None, **more}  # fmt: skip
    return acts.act(web.instance(killed_at), params, dry)


def made(web, *states):
    web.make()
    for state in states:
        act(web, state)
    return web


@pytest.mark.parametrize("state", AFTER)
def test_each_reaches_its_state_and_again_changes_nothing_and_a_check_run_says_so(web, state):
    made(web, *BEFORE[state])
    before = web.record, web.state()
    assert act(web, state, dry=True) is True and (web.record, web.state()) == before
    assert [act(web, state), act(web, state, dry=True), act(web, state)] == [True, False, False]
    assert web.state() == AFTER[state]
    operation = {"paused": "pause", "unpaused": "unpause", "suspended": "suspend", "resumed": "resume"}[state]
    assert web.record.history[-1]["event"] == operation


def test_a_paused_guest_keeps_its_memory_and_a_suspended_one_goes_on_with_that_from_its_file(web):
    made(web, "paused", "unpaused")
    assert web.domain.starts == 1 and gate.is_permitted(web.uuid, web.host.run_dir)
    act(web, "suspended")
    assert web.domain.saved and not gate.is_permitted(web.uuid, web.host.run_dir)
    act(web, "resumed")
    assert not web.domain.saved and gate.is_permitted(web.uuid, web.host.run_dir)


STEPS = [
    *(("paused", step) for step in ("pause", "paused")),
    *(("suspended", step) for step in ("suspend", "suspended")),
    *((state, step) for state in ("unpaused", "resumed") for step in ("start permit", "start guest", "start done")),
]


@pytest.mark.parametrize("state, step", STEPS)
def test_what_was_killed_at_any_step_and_is_run_again_converges(web, state, step):
    made(web, *BEFORE[state])
    with pytest.raises(Killed):
        act(web, state, killed_at=step)
    act(web, state)
    assert web.state() == AFTER[state] and act(web, state) is False


@pytest.mark.follows("end_it")
@pytest.mark.parametrize("state, step", STEPS)
def test_what_was_killed_is_not_moved_and_start_or_the_playbook_that_the_doctor_names_ends_it(web, state, step):
    made(web, *BEFORE[state])
    with pytest.raises(Killed):
        act(web, state, killed_at=step)
    with pytest.raises(InstanceInvalidState, match="task_state"):
        migration.check_begin(web.record, "migration", web.spec, "running")
    act(web, "started")
    assert web.state() == ON


TASKS = {"paused": "pausing", "unpaused": "unpausing", "suspended": "suspending", "resumed": "resuming"}  # Nova's


@pytest.mark.parametrize("state, step", STEPS)
def test_the_task_state_meanwhile_is_novas(web, state, step):
    made(web, *BEFORE[state])
    with pytest.raises(Killed):
        act(web, state, killed_at=step)
    assert web.record.task_state == TASKS[state]


LEGAL = {  # Nova's check_instance_state
    "active": {"stopped", "paused", "suspended", "rebooted", "hard", "absent"},
    "paused": {"unpaused", "hard", "absent"},
    "suspended": {"resumed", "hard", "absent"},
    "stopped": {"started", "absent"},
}
AGAIN = {
    "active": {"started", "unpaused", "resumed"},
    "paused": {"paused"},
    "suspended": {"suspended"},
    "stopped": {"stopped"},
}
ASKED = ("started", "stopped", "paused", "unpaused", "suspended", "resumed", "rebooted", "hard", "absent")


@pytest.mark.follows("make_active")
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("now", LEGAL)
def test_what_nova_refuses_in_a_state_is_refused_and_what_the_hint_says_makes_the_instance_active(web, now, asked):
    made(web, *{"active": ()}.get(now, (now,)))
    state, more = ("rebooted", {"reboot": "hard"}) if asked == "hard" else (asked, {})
    before = web.record, web.state()
    if asked in LEGAL[now] | AGAIN[now]:
        assert act(web, state, **more) is (asked in LEGAL[now])
        return
    for dry in (True, False):
        with pytest.raises(InstanceInvalidState, match="vm_state %s" % now) as refused:
            act(web, state, dry, **more)
    assert (web.record, web.state()) == before
    back = {"paused": "unpause", "suspended": "resume", "stopped": "start"}[now]
    assert refused.value.hint == hints.make_active("web1", back)
    act(web, {"unpause": "unpaused", "resume": "resumed", "start": "started"}[back])
    assert web.state() == ON


@pytest.mark.parametrize("kind, legal", [("resize", "stopped"), ("migration", "stopped"), ("live-migration", "paused")])
def test_a_move_takes_the_states_that_nova_says(web, kind, legal):
    for state in ("paused", "suspended", "stopped"):
        record = web.record or made(web).record
        record = record.replace(vm_state=state, power_state={"paused": "paused"}.get(state, "shutdown"))
        refused = contextlib.nullcontext() if state == legal else pytest.raises(InstanceInvalidState)
        with refused:
            migration.check_begin(record, kind, web.spec, record.power_state)


@pytest.mark.parametrize("now", ["paused", "suspended"])
def test_a_hard_reboot_boots_a_paused_or_suspended_guest_without_its_memory(web, now):
    made(web, now)
    act(web, "rebooted", reboot="hard")
    assert web.state() == ON and web.domain.starts == 2 and not web.domain.saved


@pytest.mark.parametrize("step", ["reboot", "rebooted off", "start permit", "start guest", "start done"])
def test_a_hard_reboot_of_a_suspended_guest_that_was_killed_is_ended_by_the_next(web, step):
    made(web, "suspended")
    with pytest.raises(Killed):
        act(web, "rebooted", killed_at=step, reboot="hard")
    act(web, "rebooted", reboot="hard")
    assert web.state() == ON


@pytest.mark.parametrize("state", AFTER)
def test_a_lock_stops_all_four(web, state):
    made(web, *BEFORE[state], "locked")
    with pytest.raises(InstanceIsLocked):
        act(web, state)


# ---- what others did


@pytest.mark.parametrize("state", ["paused", "suspended"])
def test_a_pause_by_qemu_for_a_failed_disk_is_not_taken_for_a_persons(web, state):
    made(web)
    web.domain.now, web.domain.reason = fake_libvirt.PAUSED, fake_libvirt.IO_ERROR
    with pytest.raises(InstanceInvalidState, match="power_state paused") as refused:
        act(web, state)
    assert refused.value.hint == hints.make_active("web1", "start") and web.record.vm_state == "active"


def test_a_pause_by_hand_becomes_that_of_the_record(web):
    made(web).domain.suspend()
    assert act(web, "paused") is True and web.state() == PAUSED


def test_what_somebody_let_go_on_by_hand_is_paused_again_or_stays_on(web):
    made(web, "paused").domain.resume()
    assert act(web, "paused") is True and web.domain.now == fake_libvirt.PAUSED
    web.domain.resume()
    assert act(web, "unpaused") is True and web.state() == ON


@pytest.mark.parametrize("state, of", [("unpaused", ()), ("resumed", ()), ("paused", ()), ("suspended", ())])
def test_an_active_instance_whose_guest_ended_is_for_start_or_recover(web, state, of):
    made(web, *of).domain.end(fake_libvirt.SHUT_DOWN)
    with pytest.raises(InstanceInvalidState, match="power_state shutdown") as refused:
        act(web, state)
    assert refused.value.hint == hints.make_active("web1", "start")


@pytest.mark.follows("boot_without_memory")
@pytest.mark.parametrize("how", ["removed", "cut off"])
def test_a_suspended_guest_without_its_memory_is_not_booted_instead(web, how):
    made(web, "suspended")
    web.domain.saved, web.domain.saved_in_part = how == "cut off", True
    for state, dry in (("resumed", True), ("resumed", False), ("suspended", False)):
        with pytest.raises(SavedMemoryGone) as refused:
            act(web, state, dry)
    with pytest.raises(SavedMemoryGone):
        power.converge(web.instance(), None, web.seed, "running", 1)
    assert not web.domain.isActive() and refused.value.hint == hints.boot_without_memory("web1")
    act(web, "rebooted", reboot="hard")
    assert web.state() == ON


def test_a_save_that_a_power_cut_has_cut_off_is_not_called_suspended(web, boot):
    made(web)
    with pytest.raises(Killed):
        act(web, "suspended", killed_at="suspend")
    web.host.connection.lose_power()
    web.domain.saved = web.domain.saved_in_part = True
    boot("two")
    with pytest.raises(InstanceInvalidState, match="power_state shutdown"):
        act(web, "suspended")
    assert power.would_recover(web.instance()) is True


# ---- room and failures


@pytest.mark.follows("room_for_memory")
def test_a_guest_is_not_stopped_for_a_save_that_does_not_fit(web, monkeypatch, tmp_path):
    made(web)
    room = os.statvfs(tmp_path)
    monkeypatch.setattr(pause.os, "statvfs", lambda _path: type("Room", (), {"f_bavail": 1, "f_frsize": 4096}))
    for dry in (True, False):
        with pytest.raises(NoRoomForMemory, match="takes up to 64 MiB .* on kvm1, where 0 MiB are free") as refused:
            act(web, "suspended", dry)
    assert refused.value.hint == host_hints.room_for_memory("kvm1", pause.SAVED_IN) and web.state() == ON
    monkeypatch.setattr(pause.os, "statvfs", lambda _path: room)
    act(web, "suspended")
    assert web.state() == SUSPENDED


def test_a_save_that_libvirt_refuses_leaves_the_guest_running_and_no_task_behind(web, monkeypatch):
    made(web)

    def refuse(*_args):
        raise BuildFailed("domain has assigned non-USB host devices")

    monkeypatch.setattr(domain, "save", refuse)
    with pytest.raises(BuildFailed):
        act(web, "suspended")
    assert web.state() == ON and web.record.faults[-1]["code"] == "BuildFailed"


# ---- a reboot of the host


@pytest.mark.parametrize("now, starts", [("paused", True), ("suspended", False), ("stopped", False)])
def test_after_a_power_cut_recover_boots_what_was_paused_and_leaves_what_is_off_on_purpose(web, boot, now, starts):
    made(web, now)
    web.host.connection.lose_power()
    boot("two")
    assert act(web, "recovered", dry=True) is act(web, "recovered") is starts
    assert web.state() == (ON if starts else {"suspended": SUSPENDED, "stopped": OFF}[now])
    if now == "suspended":
        act(web, "resumed")
        assert web.state() == ON and not web.domain.saved


@pytest.mark.parametrize(
    "now, code", [("paused", "PausedGuestOff"), ("suspended", "SavedMemoryGone"), ("stopped", None)]
)
def test_the_doctor_finds_what_is_not_as_the_state_says_and_nothing_else(web, now, code):
    made(web, now)

    def found():
        return [each["code"] for each in doctor._domains(web.host, [web.record])]

    assert found() == []
    web.domain.end(fake_libvirt.DESTROYED)
    web.domain.saved = False
    assert found() == ([code] if code else [])


@pytest.mark.parametrize(
    "now, code, ways",
    [
        ("paused", "PausedGuestOff", [{"state": "unpaused"}]),
        ("suspended", "SavedMemoryGone", [{"state": "rebooted", "reboot": "hard"}]),
        (None, "DomainMissing", [{"state": "started"}]),
        ("stopped", "DomainMissing", [{"state": "started"}]),
    ],
)
def test_what_the_doctor_advises_where_libvirt_lost_the_definition_is_not_refused(web, now, code, ways):
    """A start is refused where the instance is paused or suspended."""
    made(web, *([now] if now else ()))
    web.domain.end(fake_libvirt.DESTROYED)
    del web.host.connection.domains[web.uuid]
    (found,) = doctor._domains(web.host, [web.record])
    assert (found["code"], "not defined" in found["said"]) == (code, True)
    for way in ways:
        act(web, **way)
    assert web.state() == ON


# ---- create


@pytest.mark.parametrize("now", ["paused", "suspended"])
def test_create_makes_it_active_if_the_inventory_says_so_and_does_not_stop_it(web, now):
    made(web, now)
    assert power.would_converge(web.instance(), None, None) is False
    for converge in (
        lambda: power.would_converge(web.instance(), None, "shutdown"),
        lambda: power.converge(web.instance(), None, web.seed, "shutdown", 1),
    ):
        with pytest.raises(InstanceInvalidState, match="'stop' .* vm_state %s" % now):
            converge()
    assert power.converge(web.instance(), None, web.seed, "running", 1) is True and web.state() == ON


def test_a_resume_that_fails_leaves_the_instance_suspended_so_that_it_can_be_repeated_or_booted_anew(web, monkeypatch):
    """As after a change of the host's QEMU: libvirt cannot load the memory."""
    made(web, "suspended")
    with monkeypatch.context() as patched:

        def refuse(*_all):
            raise BuildFailed("load of migration failed")

        patched.setattr(domain, "start", refuse)
        with pytest.raises(BuildFailed):
            act(web, "resumed")
    assert web.state() == SUSPENDED and web.domain.saved
    act(web, "rebooted", reboot="hard")
    assert web.state() == ON
