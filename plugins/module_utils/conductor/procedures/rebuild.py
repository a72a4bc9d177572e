# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rebuild and a rescue of instances: their hosts get the images that the controller sends, then each makes the root disk of its
instance anew, or boots it from a disk beside its own."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping

from ...model.messages import Document
from ...model.volumes import root_gb
from ..closing_table import error_of, why_of
from .operate import FAILED, Done, Tasks, operate
from .steps import Ask, Procedure
from .update import SEED, SPEC


def rebuild(
    tasks: Tasks, given: Mapping[str, Document], seed_of: Callable[[str, Document], Document], dry: bool
) -> Procedure[Dict[str, Done]]:
    """``tasks``: each with the request that the inventory makes, too. Return what became of each instance."""
    wanted = {name: task.get(SPEC) or {} for name, task in tasks.items()}
    images = {
        name: {"image": spec.get("image"), "pool": spec.get("pool"), "root_gb": root_gb(spec)}
        for name, spec in wanted.items()
        if spec
    }
    refused: Dict[str, Done] = {} if dry else (yield from _send_images(tasks, images))
    left = {name: task for name, task in tasks.items() if name not in refused}
    seeded = {name: {**given.get(name, {}), SEED: seed_of(name, task[SPEC])} for name, task in left.items()}
    done = yield from operate("rebuild", left, seeded)
    return {**done, **refused}


def rescue(tasks: Tasks, given: Mapping[str, Document], dry: bool) -> Procedure[Dict[str, Done]]:
    """``tasks``: each with its image to boot from, too. Return what became of each instance."""
    images = {
        name: {"image": task["rescue_image"], "pool": task["pool"], "root_gb": 0}
        for name, task in tasks.items()
        if "rescue_image" in task
    }
    refused: Dict[str, Done] = {} if dry else (yield from _send_images(tasks, images))
    done = yield from operate("rescue", {name: task for name, task in tasks.items() if name not in refused}, given)
    return {**done, **refused}


def _send_images(tasks: Tasks, images: Mapping[str, Document]) -> Procedure[Dict[str, Done]]:
    """``images``: the arguments of module cached_image. Return those whose image does not arrive."""
    arguments: Dict[str, Any] = {name: given for name, given in images.items() if (given["image"] or {}).get("upload")}
    if not arguments:
        return {}
    answers = yield Ask("cached_image", arguments, {name: tasks[name]["hosts"][-1] for name in arguments})
    failed = {name: answer for name, answer in answers.items() if answer.keys() & FAILED}
    return {name: Done(errors=[error_of(why_of(answer))]) for name, answer in failed.items()}
