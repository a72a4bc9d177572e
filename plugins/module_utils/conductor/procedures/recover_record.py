# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A record that was lost, or is an older one, becomes the latest: all hosts hear that first, then its host writes it."""

from __future__ import annotations

from typing import Dict, Mapping

from ...model.messages import Document
from .operate import Done, Tasks, operate
from .steps import Procedure
from .tell_latest import tell_all


def recover_record(tasks: Tasks, given: Mapping[str, Document], dry: bool) -> Procedure[Dict[str, Done]]:
    """``given``: as of operate; ``dry``: in check mode nobody is told."""
    done = {name: Done() for name in tasks}
    if not dry:
        yield from tell_all(tasks, done)
    written = yield from operate(
        "recover_record", {name: tasks[name] for name in tasks if not done[name].errors}, given
    )
    return {**done, **written}
