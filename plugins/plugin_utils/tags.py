# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run whose --tags or --skip-tags leave out the tasks of a playbook. Its first task is tagged ``always`` to say so, and does
nothing else then: in a site playbook the tags of somebody's own plays leave ours out on purpose."""

from __future__ import annotations

from typing import Set

from ansible import context
from ansible.playbook.task import Task

from ..module_utils.conductor.errors import NoHostAnswered
from ..module_utils.model import fleet_hints
from .screen import warn

ALWAYS, UNTAGGED = "always", {"untagged"}


def leave_out(task: Task) -> bool:
    """Whether only that tag had the task run: the tasks beside it, which have its other tags, do not. Says so."""
    tags = set(map(str, task.tags))
    wanted, skipped = (set(map(str, context.CLIARGS.get(option) or ())) for option in ("tags", "skip_tags"))
    if ALWAYS not in tags or is_selected(tags - {ALWAYS} or UNTAGGED, wanted or {"all"}, skipped):
        return False
    given = (("--tags", wanted - {"all"}), ("--skip-tags", skipped))
    options = ["%s %s" % (option, ",".join(sorted(values))) for option, values in given if values]
    if options:  # otherwise the tag never on an import of the playbook did that
        warn("%s: nothing of berth.kvm was done here. %s" % (" and ".join(options), fleet_hints.no_tags()))
    return True


def check_asked() -> None:
    """Raise NoHostAnswered if the options had the task left out that asks the hosts, though others run."""
    if ALWAYS in map(str, context.CLIARGS.get("skip_tags") or ()):
        raise NoHostAnswered("--skip-tags %s: no host was asked" % ALWAYS, hint=fleet_hints.no_tags())
    if context.CLIARGS.get("start_at_task"):
        raise NoHostAnswered("--start-at-task: no host was asked", hint=fleet_hints.no_start_at_task())


def is_selected(tags: Set[str], wanted: Set[str], skipped: Set[str]) -> bool:
    """Whether Ansible runs a task with these tags."""
    of_kind = {"tagged"} if tags != UNTAGGED else set()
    selected = tags & wanted or ("never" not in tags and wanted & {"all", *of_kind})
    return bool(selected) and not skipped & {"all", *of_kind, *tags}
