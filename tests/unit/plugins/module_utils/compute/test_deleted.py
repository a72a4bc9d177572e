# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history of an instance outlives it on the host that removed it, for a while, and decides nothing."""

from __future__ import annotations

import os
import pathlib
import time

import pytest
from instance_case import Case, Killed

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domains
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import deleted, journal
from ansible_collections.berth.kvm.plugins.modules.instance_info import histories, read


@pytest.fixture
def case(prepared, wanted, monkeypatch):
    monkeypatch.setattr(domains, "states", lambda connection: {})
    journal.act_for({"who": "ann@ctl", "run": "r-1"})
    yield Case(prepared, wanted("web1"))
    journal.act_for(None)


def shown(case):
    return read(case.host, [case.uuid])[0]


def files(case):
    return pathlib.Path(case.host.store.state_dir, deleted.FOLDER)


def test_what_was_deleted_tells_its_history_with_who_deleted_it_and_is_in_no_list(case):
    case.make()
    case.instance().absent()
    (told,) = shown(case)
    assert (told["vm_state"], told["state"], told["name"], told["role"]) == ("deleted", "absent", "web1", None)
    assert (told["history"][-1]["event"], told["history"][-1]["who"]) == ("delete", "ann@ctl")
    assert read(case.host, [])[0] == []
    case.make()
    assert [instance["vm_state"] for instance in shown(case)] == ["active"]


def test_no_console_log_is_told_that_is_not_there(case, tmp_path, monkeypatch):
    """A guest that was adopted may have none."""
    monkeypatch.setattr(paths, "CONSOLE_DIRECTORY", str(tmp_path))
    case.make()
    assert shown(case)[0]["console_log"] == ""
    log = tmp_path / (case.uuid + "-console.log")
    log.write_text("login:")
    assert shown(case)[0]["console_log"] == str(log)


def test_what_happened_since_a_time_is_told_also_of_what_was_deleted_and_by_the_hosts_own_clock(case):
    case.make()
    before = case.record.history[0]["at"]
    case.instance().absent()
    case.make()
    told = histories(case.host, [], 3600)
    assert [each["name"] for each in told] == ["web1", "web1"]
    events = [event["event"] for each in told for event in each["history"]]
    assert "delete" in events and events.count("build") == 2
    assert histories(case.host, [case.uuid[:-1] + "0"], 3600) == [] and histories(case.host, [case.uuid], 3600) == told
    case.host.store.compare_and_swap(
        case.record, case.record.next(history=[{"event": "old", "at": "2001" + before[4:]}], token="another")
    )
    assert "old" not in [event["event"] for each in histories(case.host, [], 3600) for event in each["history"]]


def test_a_delete_killed_before_the_record_went_shows_the_record(case):
    case.make()
    with pytest.raises(Killed):
        case.instance(killed_at="delete record").absent()
    deleted.keep(case.host.store, case.record)
    assert [instance["vm_state"] for instance in shown(case)] != ["deleted"]
    case.instance().absent()
    assert [instance["vm_state"] for instance in shown(case)] == ["deleted"]


def test_it_is_kept_for_a_time_and_of_so_many(case, monkeypatch):
    case.make()
    folder = files(case)
    folder.mkdir(mode=0o700)
    old = folder / "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a.json"
    old.write_text("{}")
    os.utime(old, (time.time() - (deleted.DAYS + 1) * 86400,) * 2)
    monkeypatch.setattr(deleted, "MOST", 3)
    for number in (0, 2, 3, 1):  # a folder lists its files by no time
        (folder / ("%d.json" % number)).write_text("{}")
        os.utime(folder / ("%d.json" % number), (time.time() - 100 + number,) * 2)
    case.instance().absent()
    assert sorted(path.name for path in folder.iterdir()) == ["2.json", "3.json", case.uuid + ".json"]


def test_a_directory_that_somebody_made_there_stays_and_stops_no_delete(case):
    case.make()
    (files(case) / "old").mkdir(mode=0o700, parents=True)
    files(case).chmod(0o700)
    os.utime(files(case) / "old", (1, 1))
    case.instance().absent()
    assert case.record is None and (files(case) / "old").is_dir()


@pytest.mark.parametrize("nonsense", ["", "{", "[]", '{"name": 1}', '{"name": "a", "project_id": "b", "history": [1]}'])
def test_a_damaged_one_is_a_fault_that_names_it_and_stops_nothing(case, nonsense):
    case.make()
    case.instance().absent()
    file = files(case) / (case.uuid + ".json")
    file.write_text(nonsense)
    (told,) = shown(case)
    assert told["faults"][0]["code"] == "StateDamaged" and str(file) in told["faults"][0]["message"]
    case.make()
    case.instance().absent()
    assert shown(case)[0]["history"]
