# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The failure of a task of ours, told once: Ansible would write it twice, with lines of a playbook, and once more as JSON. A
document for programs has all of it, and so has a play of somebody's own that goes on after it."""

from __future__ import annotations

from typing import Any, Dict

from ansible import constants as C  # noqa: N812 -- Ansible's usual name for them

from ..module_utils.model.line import FAILED, marked
from .screen import is_for_programs, say


def told(text: str, short: str = "see above") -> str:
    """Tell ``text`` now; what remains to be said of it at the end of the task."""
    if is_for_programs(C.DEFAULT_STDOUT_CALLBACK):
        return text
    say("", *marked(FAILED, [text]), "")
    return short


def failure(task: Any, result: Dict[str, Any], host: str = "") -> Dict[str, Any]:
    """What Ansible gets of a failed result that was told; ``host``: which one failed, if not all of the run."""
    if is_for_programs(C.DEFAULT_STDOUT_CALLBACK) or _is_read(task):
        return result
    text, code = str(result["msg"]), str(result["error_code"])
    begin = "%s: " % host if host else ""
    full = text if text.startswith(code) else "%s: %s" % (code, text)
    return {"failed": True, "error_code": code, "msg": told(begin + full, "%s: see above" % code)}


def _is_read(task: Any) -> bool:
    """Whether a play of somebody's own goes on after it, and reads why it failed in the result."""
    if getattr(task, "ignore_errors", None):
        return True
    block = task._parent
    while block is not None and not getattr(block, "rescue", None):
        block = block._parent
    return block is not None
