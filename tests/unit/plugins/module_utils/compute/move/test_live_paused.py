# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest that a person has paused stays paused, wherever its live migration ends. The interleavings have it, too."""

from __future__ import annotations

import pytest
from fake_libvirt import PAUSED, RUNNING

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import gate, pause
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import live, moving_host
from ansible_collections.berth.kvm.plugins.module_utils.conductor import sequences
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import OWN, RESIZING


@pytest.fixture
def effects(web):
    web.make()
    return moving_host.MovingHost(web.host).effects


@pytest.mark.parametrize("paused, after", [(True, PAUSED), (False, RUNNING)])
def test_a_guest_that_was_paused_before_its_move_gets_its_permit_and_stays_paused(
    web, effects, monkeypatch, paused, after
):
    pause.pause(web.instance())
    record = web.record if paused else web.record.replace(power_state="running")
    permits = []
    monkeypatch.setattr(gate, "permit", permits.append)
    effects.resume(record)
    assert (web.domain.now, permits) == (after, [web.uuid])


@pytest.mark.parametrize("paused", [True, False])
def test_a_move_that_is_given_up_lets_only_a_guest_go_on_that_it_has_stopped(web, effects, monkeypatch, paused):
    told = []
    monkeypatch.setattr(live, "abort", lambda _connection, _uuid, goes_on=True: told.append(goes_on))
    monkeypatch.setattr(moving_host.left_backup, "end_backup_of", lambda *_: None)
    monkeypatch.setattr(moving_host.transfer, "close", lambda *_: None)
    if paused:
        pause.pause(web.instance())
    effects.stop_transfer(web.uuid)
    assert told == [not paused]


@pytest.mark.parametrize("power_state, found", [("paused", sequences.BEGUN), ("running", sequences.LOST)])
def test_a_guest_that_stands_still_by_wish_is_not_taken_for_one_whose_migration_was_cut_off(power_state, found):
    source = {"role": OWN, "phase": RESIZING, "halted": True, "running": True, "has_left": False, "power_state": power_state,
              "migration": {"type": "live-migration", "source": {"uuid": "1"}, "destination": {"uuid": "2"}}}  # fmt: skip
    assert sequences.state(source, {"role": "IN"}) == found
