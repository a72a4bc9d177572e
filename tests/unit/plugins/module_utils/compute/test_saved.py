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

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DiskChainChanged, GuestSaved
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import power, update_disks
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.moving_host import Effects
from ansible_collections.berth.kvm.plugins.module_utils.model import hints
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
    return Effects(SimpleNamespace(compute=web.host, connection=web.host.connection, identity=identity))


def in_move(web, phase):
    return web.record.replace(phase=phase, op="ab" * 16, migration={"old_spec": web.spec, "new_spec": web.spec})


@pytest.mark.follows("let_go_on")
@pytest.mark.parametrize("phase", ["active", "resizing", "frozen"])
def test_it_is_not_moved_until_a_start_lets_it_go_on_also_when_it_was_saved_in_mid_move(web, phase):
    record = web.record if phase == "active" else in_move(web, phase)
    with pytest.raises(GuestSaved) as refused:
        check(web, record)
    assert refused.value.hint == hints.let_go_on("web1") and web.domain.saved
    assert web.instance().started() and web.domain.isActive() and not web.domain.saved
    check(web, record)


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
