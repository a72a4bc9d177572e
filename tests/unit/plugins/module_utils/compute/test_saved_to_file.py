# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest whose memory somebody saved to a file of their own (virsh save): libvirt knows of no file, only why it is off."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import fake_libvirt
import pytest
from instance_case import Case, Killed

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DiskChainChanged, GuestSaved
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import power, settled, update_disks
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.power import recover
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import doctor
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.moving_host import Effects
from ansible_collections.berth.kvm.plugins.module_utils.conductor.doctor import TODO
from ansible_collections.berth.kvm.plugins.module_utils.model import disk_hints
from ansible_collections.berth.kvm.plugins.modules.instance_info import read

FILE = "/root/web1.save"
HINT = disk_hints.restore_or_boot("web1")


@pytest.fixture
def web(prepared, wanted):
    case = Case(prepared, wanted("web1"))
    case.make()
    case.domain.save(FILE)
    return case


def move(web, record):
    """As each step of a move looks; the fake definition has no disks, which is another matter."""
    identity = {"uuid": web.host.uuid, "name": "kvm1"}
    host = SimpleNamespace(compute=web.host, connection=web.host.connection, identity=identity)
    with contextlib.suppress(DiskChainChanged):
        Effects(host).check_disks(record)


BOOTING = {
    "start": lambda web: web.instance().started(),
    "start in check mode": lambda web: web.instance().would_start(),
    "create with berth_state": lambda web: power.converge(web.instance(), None, None, "running", 0),
    "reboot": lambda web: power.reboot(web.instance(), False, 0),
    "hard reboot": lambda web: power.reboot(web.instance(), True, 0),
    "new disk": lambda web: update_disks.update_disks(web.instance(), [{"name": "logs", "size_gb": 1}]),
    "move": lambda web: move(web, web.record),
    "move that was begun": lambda web: move(
        web, web.record.replace(phase="resizing", op="ab" * 16, migration={"old_spec": web.spec, "new_spec": web.spec})
    ),
}


@pytest.mark.parametrize("act", BOOTING.values(), ids=BOOTING)
def test_it_is_not_booted_moved_or_given_disks_and_stays_as_it_is(web, act):
    before = web.record
    with pytest.raises(GuestSaved, match="web1 .* was saved to a file on kvm1, as virsh save does") as refused:
        act(web)
    assert refused.value.hint == HINT and web.record == before and not web.domain.isActive()


def test_a_create_that_names_no_power_and_a_recovery_leave_it(web):
    assert power.converge(web.instance(), None, None, None, 0) is False and recover(web.instance()) is False
    assert not web.domain.isActive()


@pytest.mark.follows("restore_or_boot")
def test_restored_it_goes_on_and_is_as_any_other_again(web):
    assert "virsh restore FILE" in HINT
    web.domain.restore(FILE)
    assert web.instance().started() is False and web.state() == ("active", None, "running", True)
    power.reboot(web.instance(), False, 0)
    move(web, web.record)


@pytest.mark.follows("restore_or_boot")
def test_stopped_and_started_it_boots_without_its_memory_and_in_between_nobody_restores_it(web):
    assert HINT.index("berth.kvm.stop --limit web1") < HINT.index("berth.kvm.start --limit web1")
    assert web.instance().stopped(0) is True
    web.host.connection.gate_is_read = True
    with pytest.raises(fake_libvirt.libvirtError, match="Hook script"):
        web.domain.restore(FILE)
    move(web, web.record)
    assert web.instance().started() and web.state() == ("active", None, "running", True)


def test_who_has_stopped_it_may_start_it(web):
    web.instance().stopped(0)
    refused = None
    try:
        web.instance().would_start()
    except GuestSaved as error:
        refused = error
    assert refused is None


@pytest.mark.parametrize("step", ["start permit", "start guest"])
def test_a_start_after_a_stop_that_was_killed_is_finished_by_the_next_one(web, step):
    web.instance().stopped(0)
    with pytest.raises(Killed):
        web.instance(step).started()
    assert web.instance().started() and web.domain.isActive()


@pytest.mark.parametrize("reason", [fake_libvirt.UNKNOWN, fake_libvirt.SHUT_DOWN, fake_libvirt.DESTROYED])
def test_one_that_is_off_for_another_reason_or_of_which_libvirt_tells_none_is_booted(web, reason):
    """A libvirt that was restarted does not tell."""
    web.domain.end(reason)
    assert web.instance().started() and web.domain.isActive()


def test_memory_that_libvirt_itself_keeps_is_in_no_file_of_theirs(web):
    web.instance().stopped(0)
    web.instance().started()
    web.domain.managedSave()
    assert web.instance().summary()["state"] == "shutdown" and web.instance().started()


def test_people_are_told_wherever_the_guest_is_looked_at(web):
    assert web.instance().summary()["state"] == "saved"
    (told,), _foreign = read(web.host, [web.uuid])
    assert told["state"] == "saved"
    look = settled._of(web.host, web.record)
    assert look["instance"]["state"] == "saved" and not look["converged"]


def test_the_doctor_finds_it_with_what_helps(web):
    (found,) = doctor._domains(web.host, [web.record])
    assert (found["code"], found["severity"]) == ("GuestSaved", "warning")
    assert found["said"] == "web1 is off: its memory was saved to a file with virsh save"
    assert TODO["GuestSaved"]("kvm1", "web1", found["said"]) == HINT
    web.instance().stopped(0)
    assert list(doctor._domains(web.host, [web.record])) == []


def test_it_can_be_deleted(web):
    assert web.instance().absent() and web.domain is None
