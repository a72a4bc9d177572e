# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which guests are started again without anybody asking for this one: those that should run and that nobody ended."""

from __future__ import annotations

import os

import fake_libvirt
import pytest
from instance_case import Case, Killed
from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import BootGateMissing
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import gate
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.power import recover, would_recover


@pytest.fixture
def web(prepared, wanted):
    case = Case(prepared, wanted("web1"))
    case.make()
    return case


@pytest.fixture
def power_cut(web, boot):
    def cut(name="two"):
        web.host.connection.lose_power()
        boot(name)

    return cut


def look(web):
    return web.record, web.state(), web.domain and web.domain.starts


def test_after_a_power_cut_it_is_started_once(web, power_cut):
    power_cut()
    before = look(web)
    assert would_recover(web.instance()) is True and look(web) == before
    assert [recover(web.instance()), recover(web.instance())] == [True, False]
    assert web.state() == ("active", None, "running", True) and web.domain.starts == 2


def test_a_guest_whose_definition_went_with_the_power_is_defined_and_started(web, power_cut):
    power_cut()
    web.host.connection.domains.clear()
    assert recover(web.instance()) is True and web.state()[3]


@pytest.mark.parametrize("reason", [fake_libvirt.CRASH, fake_libvirt.FAILED])
def test_a_guest_whose_qemu_died_is_started(web, reason):
    web.domain.end(reason)
    assert recover(web.instance()) is True and web.state()[3]


@pytest.mark.parametrize(
    "end",
    [
        lambda web: web.domain.end(fake_libvirt.SHUT_DOWN),
        lambda web: web.domain.end(fake_libvirt.DESTROYED),
        lambda web: web.domain.end(fake_libvirt.UNKNOWN),
        lambda web: setattr(web.domain, "now", fake_libvirt.PAUSED),
        lambda web: web.instance().stopped(1),
    ],
    ids=["powered off from inside", "ended by hand", "nobody knows why", "paused", "stopped"],
)
def test_what_somebody_ended_in_this_boot_stays_off(web, end):
    end(web)
    before = look(web)
    assert recover(web.instance()) is False and look(web) == before


@pytest.mark.parametrize("killed_at", [None, "stop", "stopped"])
def test_what_was_stopped_or_was_being_stopped_stays_off_after_a_power_cut(web, power_cut, killed_at):
    try:
        web.instance(killed_at).stopped(1)
    except Killed:
        pass
    power_cut()
    before = look(web)
    assert recover(web.instance()) is False and look(web) == before


@pytest.mark.parametrize(
    "change", [{"role": "OUT", "phase": "keep"}, {"op": "ab" * 16}, {"phase": "resized"}, {"phase": "deleting"}]
)
def test_what_moves_or_is_no_longer_owned_here_is_not_started(web, power_cut, change):
    record = web.record
    plant(web.host.store, record.next(**change))
    power_cut()
    before = look(web)
    assert would_recover(web.instance()) is False
    assert recover(web.instance()) is False and look(web) == before


def test_a_guest_that_runs_is_not_due_also_where_its_permit_went(web):
    gate.revoke(web.uuid, web.host.run_dir)
    before = look(web)
    assert would_recover(web.instance()) is False and recover(web.instance()) is False
    assert look(web) == before


def test_an_instance_that_is_not_here_is_not_made(web, wanted):
    assert recover(Case(web.host, wanted("web2")).instance()) is False


def test_a_recovery_that_was_interrupted_is_taken_up(web, power_cut):
    power_cut()
    for step in ("start permit", "start guest", "start done"):
        with pytest.raises(Killed):
            recover(web.instance(step))
        power_cut("after " + step)
    assert [recover(web.instance()), recover(web.instance())] == [True, False]
    assert web.state() == ("active", None, "running", True)


def test_nothing_is_recovered_where_the_gate_was_deleted(web, power_cut):
    power_cut()
    os.unlink(web.host.hook)
    with pytest.raises(BootGateMissing):
        recover(web.instance())
    assert not web.domain.isActive()
