# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that was drained takes nothing until it is returned, and remembers what it had."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import drained, journal
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.state_file import StateDamaged
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store

ONE = {"uuid": "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a", "name": "web-1"}
OTHER = {"uuid": "1c8fab63-4d7f-5e6a-8e1c-4b2dae80f2b3", "name": "web-2"}


@pytest.fixture
def store(tmp_path):
    journal.act_for({"who": "ada@ctl", "run": "r-1"})
    return Store(str(tmp_path / "berth"))


def test_a_host_that_nobody_drained_is_open(store):
    drained.check_open(store.state_dir, "web-1")
    assert drained.reopen(store) is None


def test_a_drained_host_refuses_an_instance_and_says_who_closed_it_and_why(store):
    assert drained.drain(store, "new memory", [ONE])
    with pytest.raises(drained.HostDrained, match=r"no place for db-1: .* by ada@ctl at 20.*Z \(new memory\)") as said:
        drained.check_open(store.state_dir, "db-1")
    assert said.value.retryable


def test_a_drain_that_goes_on_keeps_its_beginning_and_what_the_host_had_then(store):
    drained.drain(store, "new memory", [ONE])
    journal.act_for({"who": "bob@ctl", "run": "r-2"})
    assert drained.drain(store, "", [OTHER])
    kept = drained.read(store.state_dir)
    assert (kept["by"], kept["reason"], kept["instances"]) == ("ada@ctl", "new memory", [ONE, OTHER])
    assert not drained.drain(store, "", [])


def test_a_return_opens_the_host_and_tells_what_it_had(store):
    drained.drain(store, "", [ONE])
    assert drained.reopen(store)["instances"] == [ONE]
    drained.check_open(store.state_dir, "web-1")


def test_check_mode_changes_nothing(store):
    assert drained.drain(store, "", [ONE], dry=True) and drained.read(store.state_dir) is None
    drained.drain(store, "", [ONE])
    assert drained.reopen(store, dry=True)["instances"] == [ONE] and drained.read(store.state_dir) is not None


def test_a_damaged_file_is_not_taken_for_an_open_host(store):
    drained.drain(store, "", [ONE])
    with open("%s/drained.json" % store.state_dir, "w") as file:
        file.write("{")
    with pytest.raises(StateDamaged):
        drained.check_open(store.state_dir, "web-1")
