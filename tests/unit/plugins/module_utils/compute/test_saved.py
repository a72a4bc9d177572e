# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest whose memory somebody saved (virsh managedsave): elsewhere it would boot without it, here it would go on with it beside
disks that have changed."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest
from instance_case import Case
from move_side import OP, D, S, plant

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DiskChainChanged, GuestSaved
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import power, update_disks
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import moving_host
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import table
from ansible_collections.berth.kvm.plugins.module_utils.model import disk_hints, hints, migration
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import InstanceInvalidState


@pytest.fixture
def web(prepared, wanted):
    case = Case(prepared, wanted("web1"))
    case.make()
    case.domain.managedSave()
    return case


def check(web, record):
    """As each step of a move looks; the fake definition has no disks, which is another matter."""
    with contextlib.suppress(DiskChainChanged):
        moving(web).check_disks(record)


def moving(web):
    identity = {"uuid": web.host.uuid, "name": "kvm1"}
    return moving_host.Effects(SimpleNamespace(compute=web.host, connection=web.host.connection, identity=identity))


def in_move(web, phase):
    told = migration.new_migration(OP, migration.RESIZE, S, D, web.record, web.spec, 0, 600)
    return web.record.replace(phase=phase, op=OP, migration={**told, "attempt": 1})


@pytest.mark.follows("let_go_on")
def test_it_is_not_moved_until_a_start_lets_it_go_on(web):
    with pytest.raises(GuestSaved) as refused:
        check(web, web.record)
    assert refused.value.hint == hints.let_go_on("web1") and web.domain.saved
    assert web.instance().started() and web.domain.isActive() and not web.domain.saved
    check(web, web.record)


@pytest.mark.follows("give_up_move")
@pytest.mark.parametrize("phase", ["resizing", "frozen"])
def test_saved_between_two_runs_of_a_move_it_goes_on_when_the_move_is_given_up(web, monkeypatch, phase):
    """A start is refused then."""
    monkeypatch.setattr(moving_host.disks, "manifest", lambda *_arguments, **_options: [])
    monkeypatch.setattr(moving_host.precopy, "tidy", lambda *_arguments: None)
    record = plant(web.host.store, in_move(web, phase))
    with pytest.raises(GuestSaved) as refused:
        check(web, record)
    assert refused.value.hint == disk_hints.give_up_move("web1") and web.domain.saved
    host = SimpleNamespace(store=web.host.store, effects=moving(web), identity=S, nonce=lambda: "nonce", now=lambda: 0)
    for attempt, step in ((1, "abort"), (2, "start")):  # the sequence "abort", on the source
        table.run(host, web.uuid, step, {"op": OP, "attempt": attempt})
    assert web.domain.isActive() and not web.domain.saved
    check(web, web.record)


@pytest.mark.follows("let_go_on")
def test_it_is_given_no_disks_and_is_not_rebooted_before_either(web):
    with pytest.raises(GuestSaved):
        update_disks.update_disks(web.instance(), [{"name": "logs", "size_gb": 1}])
    for hard in (False, True):
        with pytest.raises(InstanceInvalidState, match="power_state saved") as refused:
            power.reboot(web.instance(), hard, 0)
    assert refused.value.hint == hints.let_go_on("web1") and web.domain.saved
    web.instance().started()
    power.reboot(web.instance(), False, 0)
    assert web.state() == ("active", None, "running", True)


@pytest.mark.parametrize("phase", ["resized", "confirming", "reverting", "restoring"])
def test_where_the_source_has_let_go_the_way_back_stays_open(web, phase):
    check(web, in_move(web, phase))


def test_it_can_be_stopped_and_deleted(web):
    assert web.instance().stopped(0) and web.domain.saved
    assert web.instance().absent() and web.domain is None
