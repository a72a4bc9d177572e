# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work that one task does once for all of its hosts, though each of them reports its own part.

Ansible runs a task in one process for each host, and says what changed and what failed host by host. The first of these
processes does the work, while the others wait; each then returns what came of its own host.
"""

from __future__ import annotations

import fcntl
import json
import os
from typing import Any, Callable, Dict, Tuple

from ansible import constants
from ansible.plugins.action import ActionBase

from ..module_utils.conductor.errors import WorkEnded
from . import acting

Results = Dict[str, Any]


def done_once(action: ActionBase, work: Callable[[], Results]) -> Tuple[Results, bool]:
    """Return what ``work()`` returned, which is plain data, and whether this process was the one that did it.

    Raises what it raised, in that process. In the others WorkEnded: nobody does again what ended halfway.
    """
    # Ansible removes this directory, which only its user can read, at the end of the run.
    path = os.path.join(constants.DEFAULT_LOCAL_TMP, "berth-%s-%s" % (acting.RUN, action._task._uuid))
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        kept = file.read()
        if kept:
            results = json.loads(kept)
            if results is None:
                raise WorkEnded("the process that did this task for all instances ended. Its error is shown above")
            return results, False
        _write(file, None)
        results = work()
        _write(file, results)
        return results, True


def _write(file: Any, value: Any) -> None:
    file.seek(0)
    file.truncate()
    json.dump(value, file)
    file.flush()
