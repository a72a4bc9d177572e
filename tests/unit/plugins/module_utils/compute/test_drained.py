# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that was drained takes nothing until it is returned."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.host import boot_time
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import drained, journal
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.state_file import StateDamaged
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store


@pytest.fixture
def store(tmp_path):
    journal.act_for({"who": "ada@ctl", "run": "r-1"})
    return Store(str(tmp_path / "berth"))


def test_a_host_that_nobody_drained_is_open(store):
    drained.check_open(store.state_dir, "web-1")
    assert drained.reopen(store) is None


def test_a_drained_host_refuses_an_instance_and_says_who_closed_it_and_why(store):
    assert drained.drain(store, "new memory")
    with pytest.raises(drained.HostDrained, match=r"no place for db-1: .* by ada@ctl at 20.*Z \(new memory\)") as said:
        drained.check_open(store.state_dir, "db-1")
    assert said.value.retryable


def test_a_drain_that_goes_on_keeps_its_beginning(store):
    drained.drain(store, "new memory")
    journal.act_for({"who": "bob@ctl", "run": "r-2"})
    assert not drained.drain(store, "")
    assert drained.drain(store, "a new board")
    assert (drained.read(store.state_dir)["by"], drained.read(store.state_dir)["reason"]) == ("ada@ctl", "a new board")


def test_a_closed_host_says_whether_it_was_booted_since(store, monkeypatch):
    monkeypatch.setattr(boot_time, "boot_id", lambda: "one")
    drained.drain(store, "new memory")
    assert drained.read(store.state_dir)["rebooted"] is False
    monkeypatch.setattr(boot_time, "boot_id", lambda: "two")
    assert drained.read(store.state_dir)["rebooted"] is True
    drained.drain(store, "a new board")  # a drain that goes on is the one that began before the boot
    assert drained.read(store.state_dir)["rebooted"] is True


def test_of_a_host_that_an_earlier_version_closed_no_boot_is_known(store):
    drained.drain(store, "")
    with open("%s/drained.json" % store.state_dir, "w") as file:
        file.write('{"reason": "", "by": "ada@ctl", "at": "2026-11-22T11:15:06Z"}')
    assert drained.read(store.state_dir)["rebooted"] is False


def test_a_return_opens_the_host(store):
    drained.drain(store, "new memory")
    assert drained.reopen(store)["reason"] == "new memory"
    drained.check_open(store.state_dir, "web-1")


def test_check_mode_changes_nothing(store):
    assert drained.drain(store, "", dry=True) and drained.read(store.state_dir) is None
    drained.drain(store, "")
    assert drained.reopen(store, dry=True) and drained.read(store.state_dir) is not None


def test_a_damaged_file_is_not_taken_for_an_open_host(store):
    drained.drain(store, "")
    with open("%s/drained.json" % store.state_dir, "w") as file:
        file.write("{")
    with pytest.raises(StateDamaged):
        drained.check_open(store.state_dir, "web-1")


def test_a_reason_is_kept_as_one_that_every_controller_can_read(store):
    drained.drain(store, "a\nb" + "x" * 300)
    kept = drained.read(store.state_dir)["reason"]
    assert kept.startswith("a?b") and len(kept) == 200
