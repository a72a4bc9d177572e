# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module migration: what it shows of the record that a leg of a move has changed."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from ansible_collections.berth.kvm.plugins.modules import migration

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
NOTHING = {"uuid": UUID, "host": {"uuid": UUID, "name": "kvm1"}, "role": None}
HELD = {
    **NOTHING, "role": "OWN", "phase": "active", "vm_state": "active", "task_state": None, "power_state": "running",
    "spec": {"flavor": {"name": "small"}, "metadata": {"note": "of the guest"}}, "token": "t", "attempt": 1,
}  # fmt: skip


@pytest.fixture
def leg(monkeypatch):
    """leg(record before, record after its one step, check_mode) -> what the module returns; ``leg.host``, ``leg.warned``."""

    def act(before, after, check_mode=False):
        monkeypatch.setattr(migration, "MovingHost", lambda: act.host)
        monkeypatch.setattr(migration, "signal", SimpleNamespace(signal=lambda *_given: None, SIGHUP=1, SIG_IGN=1))
        monkeypatch.setattr(migration, "view", lambda _host, _uuid: before)
        monkeypatch.setattr(migration, "run", lambda *_given, **_options: (True, after))
        given = {name: option.get("default") for name, option in migration.SPEC.items()}
        given.update(uuid=UUID, steps=["freeze"], token={"op": "op", "attempt": 1})
        return migration.act(SimpleNamespace(params=given, check_mode=check_mode, warn=act.warned.append))

    act.host, act.warned = SimpleNamespace(effects=SimpleNamespace(warnings=[])), []
    return act


def test_what_went_wrong_without_stopping_the_move_is_a_warning_of_the_leg(leg):
    leg.host.effects.warnings = ["web1: its packets do not pass"]
    assert leg(HELD, HELD)["changed"] and leg.warned == ["web1: its packets do not pass"]


def test_each_leg_of_a_move_shows_its_record_before_and_after(leg):
    """C05"""
    diff = leg(HELD, {**HELD, "phase": "frozen", "task_state": "resize_migrating"})["diff"]
    before, after = json.loads(diff["before"]), json.loads(diff["after"])
    assert {part: after[part] for part in after if after[part] != before[part]} == {
        "phase": "frozen",
        "task_state": "resize_migrating",
    }
    assert (before["host"], before["flavor"]) == ("kvm1", "small") and "of the guest" not in diff["before"]


def test_a_host_without_a_record_shows_nothing(leg):
    """C05"""
    assert leg(HELD, NOTHING)["diff"]["after"] == "" != leg(NOTHING, HELD)["diff"]["after"]


def test_check_mode_shows_no_change_of_the_record(leg, monkeypatch):
    """C05: what would become of the instance is shown with the results, by the controller."""
    asked = []
    monkeypatch.setattr(
        migration.rehearsal, "rehearse", lambda *given, **_o: asked.append(given) or (True, HELD, {"op": "op"})
    )
    looked = leg(HELD, NOTHING, check_mode=True)
    assert looked["diff"]["before"] == looked["diff"]["after"] and looked["move"] == HELD
    assert asked == [(leg.host, UUID, ["freeze"], {"op": "op", "attempt": 1}, {})]
