# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which backups of many begin within a window, and in which order."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.backup import back_up
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.backup_host import Run
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Ask
from ansible_collections.berth.kvm.plugins.module_utils.model import backup_hints

LAST = {"web1": "20260103T000000Z", "web2": "20260101T000000Z", "web3": None, "web4": "20260102T000000Z"}
TASKS = {name: {"uuid": "u-" + name, "hosts": ["h1"], "owner": "o"} for name in LAST}
GIVEN = {name: {"to": "/b", "keep": 3} for name in LAST}


def played(minutes, seconds_each, at_once=2):
    """(what became of each, [names of each question for backups], arguments of the list)."""
    now, begun, listed = [0.0], [], {}
    procedure, answer = back_up(TASKS, GIVEN, Run({}, at_once, lambda: "k"), minutes, lambda: now[0]), None
    while True:
        try:
            step = procedure.send(answer)
        except StopIteration as ended:
            return ended.value, begun, listed
        if not isinstance(step, Ask):
            answer = None
            continue
        if {each["state"] for each in step.arguments.values()} == {"listed"}:
            listed.update(step.arguments)
            answer = {
                name: {
                    "changed": False,
                    "instance": {"uuid": "u", "backups": [{"id": LAST[name]}] if LAST[name] else []},
                }
                for name in step.arguments
            }
            continue
        begun.append(sorted(step.arguments))
        now[0] += seconds_each
        answer = {name: {"changed": True, "instance": {"uuid": "u"}} for name in step.arguments}


def test_those_whose_last_backup_is_the_oldest_come_first_and_as_many_at_once_as_said():
    done, begun, listed = played(60, 1)
    assert begun == [["web2", "web3"], ["web1", "web4"]] and all(each.changed for each in done.values())
    assert {frozenset(each) for each in listed.values()} == {frozenset({"uuid", "state", "to"})}


@pytest.mark.follows("next_window")
def test_none_begins_after_the_window_and_the_others_say_so():
    done, begun, _listed = played(1, 60)
    assert begun == [["web2", "web3"]]
    late = [name for name, each in done.items() if each.errors]
    assert late == ["web4", "web1"] and done["web1"].errors[0]["code"] == "BackupWindowOver"
    assert done["web1"].errors[0]["hint"] == backup_hints.next_window()
    assert [begun for _done, begun, _listed in (played(2, 60), played(1, 60, at_once=4))] == [
        [["web2", "web3"], ["web1", "web4"]],
        [["web1", "web2", "web3", "web4"]],
    ]
