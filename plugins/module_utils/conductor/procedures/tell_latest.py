# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All hosts hear which record of an instance becomes the latest, before it does."""

from __future__ import annotations

from typing import Any, Collection, Dict, Mapping

from ...model import hints
from ...model.errors import BerthError
from ...model.messages import Document
from ..errors import HostUnknown
from ..report import text_of
from .operate import Done
from .steps import Ask, Procedure


def tell_latest(name: str, told: Document, hosts: Collection[str], unprepared: Collection[str]) -> Procedure[None]:
    """``told``: see telling.will_own(). Raise HostUnknown if one of the hosts does not take it: it would take a lost host
    that is back for the owner."""
    answers = yield Ask("rescan", {host: {"told": told} for host in hosts})
    for host, answer in answers.items():
        error = answer.get("error") or {}
        if (error or "reason" in answer) and host not in unprepared:
            why = answer.get("reason") or text_of({**error, "hint": None})
            raise HostUnknown(
                "the record of %s is left as it is: %s did not take that it becomes the latest: %s" % (name, host, why),
                hint=error.get("hint") or hints.run_again(),
            )


def tell_all(tasks: Mapping[str, Mapping[str, Any]], done: Dict[str, Done]) -> Procedure[None]:
    """For each task that has something ``to_tell``. Who is not told by all has the error in ``done``."""
    for name, task in tasks.items():
        if task.get("to_tell"):
            try:
                yield from tell_latest(name, **task["to_tell"])
            except BerthError as error:
                done[name].errors.append(error.to_dict())
