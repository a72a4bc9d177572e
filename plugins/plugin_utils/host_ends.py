# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of berth_report in a play where each host ends for itself: no task at the end of the run can tell for all.

Such a play has a variable PART, {part, names}: the part of the file, and the names that will have an entry there. An entry
has ``state`` once its host has ended; the run has finished once each name has ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from typing import Any, Dict, Iterator, TextIO

from ..module_utils.model.errors import BerthError
from ..module_utils.model.safe_text import visible_all
from . import acting, run_report
from .plain import plain
from .run_report import VARIABLE, file_of, given, unwritable, write

PART = "__berth_report_part"
OK, FAILED, UNREACHABLE = "ok", "failed", "unreachable"


def begin(action: Any, task_vars: Dict[str, Any]) -> None:
    """As run_report.begin, but what hosts of this run have written stays, where a play reads all hosts again and again."""
    if PART in task_vars and given(action, task_vars, VARIABLE):
        with _held(action, task_vars) as document:
            document["finished"] = False
    else:
        run_report.begin(action, task_vars)


def note(action: Any, task_vars: Dict[str, Any], result: Dict[str, Any]) -> None:
    """Note that a task changed its host, failed there, or did not reach it. A file that cannot be written hides no result."""
    if PART not in task_vars or action._task.run_once:
        return
    entry: Dict[str, Any] = {"changed": True} if result.get("changed") else {}
    if result.get("unreachable") or result.get("failed"):
        entry["state"] = UNREACHABLE if result.get("unreachable") else FAILED
        entry["error"] = result.get("error") or {"message": str(result.get("msg"))}
    if entry:
        with contextlib.suppress(BerthError):
            _add(action, task_vars, entry)


def end(action: Any, task_vars: Dict[str, Any], entry: Dict[str, Any]) -> None:
    """The host of this task has ended, well if ``entry`` has no other state; what ended before stays as it was."""
    _add(action, task_vars, {"state": OK, **entry})


def fail(action: Any, task_vars: Dict[str, Any], error: Dict[str, Any]) -> None:
    """The whole run ends with an error; what came of the hosts until then stays in the file."""
    part = given(action, task_vars, PART)["part"]
    with _held(action, task_vars) as document:
        document.update(finished=True, check=bool(action._task.check_mode), error=error)
        document.setdefault(part, {})


def _add(action: Any, task_vars: Dict[str, Any], entry: Dict[str, Any]) -> None:
    settings = given(action, task_vars, PART)
    names = settings["names"]
    name = names[0] if len(names) == 1 else str(task_vars["inventory_hostname"])
    with _held(action, task_vars) as document:
        entries = document.setdefault(settings["part"], {})
        if "state" not in entries.get(name, {}):
            entries[name] = {"changed": False, **entries.get(name, {}), **visible_all(plain(entry))}
        document["check"] = bool(action._task.check_mode)
        document["finished"] = all("state" in entries.get(each, {}) for each in names)


@contextlib.contextmanager
def _held(action: Any, task_vars: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
    """The document of the file, which is written again at the end; the processes of other hosts wait."""
    given_path = given(action, task_vars, VARIABLE)
    if not given_path:
        yield {}
        return
    path = file_of(given_path)
    with _locked(path) as file:
        document = _of_this_run(file.read())
        yield document
        write(path, document)


def _of_this_run(text: str) -> Dict[str, Any]:
    """What other hosts have written; not what an earlier run left, if no task has begun the file anew."""
    with contextlib.suppress(ValueError):
        document = json.loads(text)
        if isinstance(document, dict) and document.get("run") == acting.RUN:
            return document
    return {"run": acting.RUN}


def _locked(path: str) -> TextIO:
    """The file, locked until it is closed. A writer replaces it, so who waited for the lock may hold one that is gone."""
    while True:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)  # empty if somebody removed it
        except OSError as error:
            raise unwritable(VARIABLE, path, error) from None
        file = os.fdopen(fd, encoding="utf-8", errors="replace")
        fcntl.flock(file, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                return file
        file.close()
