# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""--tags and --skip-tags: who leaves all tasks of a playbook out is told, and whoever selects them is not."""

from __future__ import annotations

from unittest import mock

import pytest
from ansible import context
from ansible.playbook.play import Play
from ansible.playbook.task import Task
from ansible.utils.context_objects import CLIArgs

from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import NoHostAnswered
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints
from ansible_collections.berth.kvm.plugins.plugin_utils import tags

CASES = [
    # tags of the tasks, --tags, --skip-tags, whether they run
    ([], [], [], True),
    ([], ["all"], [], True),
    ([], ["create"], [], False),
    ([], ["untagged"], [], True),
    ([], ["tagged"], [], False),
    ([], ["all"], ["untagged"], False),
    ([], ["all"], ["all"], False),
    ([], ["all"], ["other"], True),
    (["vms"], ["vms"], [], True),
    (["vms"], ["web"], [], False),
    (["vms"], ["tagged"], [], True),
    (["vms"], ["all"], ["vms"], False),
    (["vms"], ["all"], ["tagged"], False),
    (["vms", "never"], ["all"], [], False),
    (["vms", "never"], ["vms"], [], True),
]


@pytest.fixture
def left_out(monkeypatch):
    """left_out(tags, wanted, skipped): (whether the first task does nothing, what is said)."""

    def run(own, wanted=(), skipped=(), first=("always",)):
        told, task = [], Task()
        task.tags = [*own, *first]
        monkeypatch.setattr(tags, "warn", told.append)
        options = CLIArgs({**context.CLIARGS, "tags": tuple(wanted), "skip_tags": tuple(skipped)})
        with mock.patch.object(context, "CLIARGS", options):
            return tags.leave_out(task), told

    return run


@pytest.mark.parametrize("own, wanted, skipped, runs", CASES)
def test_the_first_task_does_nothing_where_ansible_leaves_out_the_others(left_out, own, wanted, skipped, runs):
    assert left_out(own, wanted, skipped)[0] is not runs
    beside = Task.load({"debug": {}, "tags": own}, block=None)
    with mock.patch.object(Task, "get_play", lambda _self: Play()):
        assert beside.evaluate_tags(wanted or ["all"], skipped, {}) is runs, "as Ansible decides"


@pytest.mark.follows("no_tags")
def test_who_leaves_out_all_tasks_is_told_with_the_options_and_without_them_they_run(left_out):
    for options in ({"wanted": ["create"]}, {"wanted": ["all"], "skipped": ["untagged"]}):
        nothing, (said,) = left_out([], **options)
        assert nothing and said.endswith(fleet_hints.no_tags())
    assert said.startswith("--skip-tags untagged: nothing of berth.kvm was done here")
    assert left_out([]) == left_out(["vms"], ["vms"]) == (False, [])


def test_an_import_that_is_never_meant_to_run_by_itself_says_nothing(left_out):
    assert left_out(["never"]) == (True, [])


def test_a_later_task_is_none_of_them(left_out):
    assert left_out([], ["create"], first=()) == (False, [])


@pytest.mark.follows("no_start_at_task")
def test_a_task_to_start_at_has_asked_no_host_and_without_it_nothing_is_said():
    with mock.patch.object(context, "CLIARGS", CLIArgs({"start_at_task": "Choose a host for each instance"})):
        with pytest.raises(NoHostAnswered, match="--start-at-task: no host was asked") as refused:
            tags.check_asked()
    assert refused.value.hint == fleet_hints.no_start_at_task()
    with mock.patch.object(context, "CLIARGS", CLIArgs({})):
        tags.check_asked()
