# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A delete: first all hosts that have a part of an instance remove it, its owner last; then all hosts forget it."""

from __future__ import annotations

from typing import Dict, Iterable, List, Mapping

from ...model.messages import Document
from .operate import Done, Tasks, operate
from .steps import Ask, Procedure


def delete(tasks: Tasks, given: Mapping[str, Document], hosts: Iterable[str]) -> Procedure[Dict[str, Done]]:
    """``given``: as of operate; ``hosts``: all that the run has asked. Return what became of each instance."""
    done = yield from operate("delete", tasks, given)
    gone: Dict[str, Dict[str, List[int]]] = {}
    after: Dict[str, int] = {}
    for name, task in tasks.items():
        if not task.get("owner") or done[name].errors or not (task["hosts"] or task["given_up"]):
            continue
        gone.setdefault(task["owner"], {})[task["uuid"]] = task["after"]
        if task["given_up"]:
            # the lost host, if it is back, does not know that it is gone: the next owner counts on from there
            after[task["uuid"]] = task["after"][0]
    if gone:
        # nothing is lost if one does not take it: what it knows still counts, and can only have a later create refused
        told = {"gone": gone, **({"after": after} if after else {})}
        yield Ask("rescan", {host: {"told": told} for host in hosts})
    return done
