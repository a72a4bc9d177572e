# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""-e berth_report=FILE: the end of a run as JSON, for programs.

The file says that the run has not finished until it has, so the file of a killed run is never mistaken for a result.
"""

from __future__ import annotations

import json
import os
from typing import Any, BinaryIO, Dict

from ..module_utils.model.safe_text import visible_all
from ..module_utils.model.schema import Text
from .documents import check_replaceable, unwritable, write_document
from .plain import plain, rendered

VARIABLE = "berth_report"
SCHEMA = 1
FILE = Text(r"[^\n\t]*\Z", "a path without control characters", longest=4096)


def begin(action: Any, task_vars: Dict[str, Any]) -> None:
    """Write the file before a host is asked. Raises InvalidInput if it cannot be written."""
    _write(action, task_vars, {"finished": False})


def end(action: Any, task_vars: Dict[str, Any], parts: Dict[str, Any]) -> None:
    _write(action, task_vars, {"finished": True, "check": bool(action._task.check_mode), **visible_all(plain(parts))})


def fail(action: Any, task_vars: Dict[str, Any], error: Dict[str, Any]) -> None:
    end(action, task_vars, {"error": error})


def given(action: Any, task_vars: Dict[str, Any], name: str) -> Any:
    """The rendered variable of the task's own host, None if there is none."""
    return rendered(name, lambda: action._templar.template(task_vars[name])) if name in task_vars else None


def _write(action: Any, task_vars: Dict[str, Any], document: Dict[str, Any]) -> None:
    path = given(action, task_vars, VARIABLE)
    if path:
        write(file_of(path), document)


def file_of(path: Any) -> str:
    """The file's path. Raises InvalidInput if there is something else, such as an inventory: it would be lost."""
    file = os.path.expanduser(FILE.check(path, VARIABLE))  # a shell leaves the ~ of -e berth_report=~/out.json
    check_replaceable(
        file, VARIABLE, path, _is_of_a_run, "a new file, or that of an earlier run: the existing one is neither"
    )
    return file


def _is_of_a_run(file: BinaryIO) -> bool:
    try:
        document = json.load(file)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "finished" in document


def write(path: str, document: Dict[str, Any]) -> None:
    """Replace the file. Raises InvalidInput if it cannot be written."""
    try:
        write_document(path, {"schema": SCHEMA, **document})
    except OSError as error:
        raise unwritable(VARIABLE, path, error) from None
