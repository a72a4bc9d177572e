# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups of many instances within a window: those whose last backup is the oldest come first, so that each has its turn."""

from __future__ import annotations

from typing import Callable, Dict, List, Mapping

from ...model import backup_hints
from ...model.errors import BerthError
from ...model.messages import Document
from .backup_host import Run, operate_anywhere
from .operate import Done, Tasks
from .steps import Procedure

LISTED = ("to", "host")  # what a list needs of the arguments of a backup


class BackupWindowOver(BerthError):
    """The window of the run was over before the backup of the instance began. Its earlier backups are as they were."""


def back_up(
    tasks: Tasks, given: Mapping[str, Document], run: Run, minutes: int, clock: Callable[[], float]
) -> Procedure[Dict[str, Done]]:
    """``minutes``: none begins later than so long after the first; ``clock``: of the controller, in s."""
    done: Dict[str, Done] = {}
    order, began = (yield from _oldest_first(tasks, given, run)), clock()
    while order:
        if clock() - began >= 60 * minutes:
            return {**done, **{name: Done(errors=[_over(name, minutes)]) for name in order}}
        now, order = order[: run.at_once], order[run.at_once :]
        done.update((yield from operate_anywhere("backup", {name: tasks[name] for name in now}, given, run)))
    return done


def _oldest_first(tasks: Tasks, given: Mapping[str, Document], run: Run) -> Procedure[List[str]]:
    """Those without a backup come first, and those whose host does not list any: the backup says why."""
    there = {name: task for name, task in tasks.items() if task["hosts"]}
    listed = yield from operate_anywhere(
        "backups", there, {name: _of_a_list(given.get(name, {})) for name in there}, run
    )
    last = {
        name: max((each["id"] for each in one.instance.get("backups", ())), default="") for name, one in listed.items()
    }
    return sorted(tasks, key=lambda name: (last.get(name, ""), name))


def _of_a_list(arguments: Document) -> Document:
    return {name: arguments[name] for name in LISTED if name in arguments}


def _over(name: str, minutes: int) -> Document:
    return BackupWindowOver(
        "the backup of %s was not begun: the %d minutes for backups were over" % (name, minutes),
        hint=backup_hints.next_window(),
    ).to_dict()
