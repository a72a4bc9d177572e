# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All our text reaches the terminal through this file, which makes control characters from a host visible. It goes
to stderr if a callback writes JSON or XML to stdout."""

from __future__ import annotations

from typing import Any, Dict, List

from ansible import constants as C  # noqa: N812 -- Ansible's usual name for them
from ansible.errors import AnsibleError
from ansible.utils.color import stringc
from ansible.utils.display import Display

from ..module_utils.model.line import CHANGED, FAILED, LEFT_OUT, UNCHANGED, WARNING, Line, marked
from ..module_utils.model.safe_text import visible

# The setting of Ansible with the colour of each kind of line.
COLOURS = {
    FAILED: "COLOR_ERROR",
    CHANGED: "COLOR_CHANGED",
    UNCHANGED: "COLOR_OK",
    LEFT_OUT: "COLOR_UNREACHABLE",
    WARNING: "COLOR_WARN",
}
EVENTS = 15
SAVE_CURSOR = "\n\x1b[s"  # the callback dense writes where the cursor was saved last


def is_for_programs(callback: str) -> bool:
    """Whether this callback writes a document to stdout, such as ansible.posix.json, which our text would break."""
    return str(callback).rpartition(".")[2] in ("json", "jsonl", "junit", "null")


def say(*lines: str) -> List[str]:
    """Show each as one line: a line feed inside one could fake a line. Return what was shown."""
    shown = [str(visible(line)) for line in lines]
    text, beside = "\n".join(shown), is_for_programs(C.DEFAULT_STDOUT_CALLBACK)
    painted = text if beside else "\n".join(_painted(*entry) for entry in zip(lines, shown))
    if str(C.DEFAULT_STDOUT_CALLBACK).rpartition(".")[2] == "dense":
        painted += SAVE_CURSOR
    if painted == text:
        Display().display(text, stderr=beside)
    else:  # a log has no colours
        Display().display(painted, screen_only=True)
        Display().display(text, log_only=True)
    return shown


def _painted(line: str, text: str) -> str:
    """The text in the colour of the line's kind, if the terminal has colours and the user wants them."""
    kind = line.kind if isinstance(line, Line) else ""
    return stringc(text, getattr(C, COLOURS[kind])) if kind else text


def visible_line(message: Any) -> str:
    """One visible line of a text, which for a warning is in an object."""
    return visible(" ".join(str(message.event.msg if hasattr(message, "event") else message).split()))


def warn(line: str) -> None:
    """A warning of the task, or a line of its own where Ansible would show nothing of a task that is ok."""
    if _hides_ok():
        Display().display("[WARNING]: %s" % visible(line), color=C.COLOR_WARN, stderr=True)
    else:
        Display().warning(visible(line))


def _hides_ok() -> bool:
    name = str(C.DEFAULT_STDOUT_CALLBACK).rpartition(".")[2]
    try:
        return not C.config.get_config_value("display_ok_hosts", plugin_type="callback", plugin_name=name)
    except AnsibleError:  # not a setting of this callback
        return False


def events_shown() -> int:
    """How many events of a history are shown: all of them with -v."""
    return 1000 if verbosity() else EVENTS


def columns() -> int:
    """The width of the terminal; 80 if there is none. Ansible has read it before it started the process of the task."""
    return int(Display().columns) + 1


def verbosity() -> int:
    """The number of -v of the run."""
    return Display().verbosity


def tell_once(text: str, short: str = "see above") -> str:
    """Tell ``text`` now; what remains to be said of it at the end of the task."""
    if is_for_programs(C.DEFAULT_STDOUT_CALLBACK):
        return text
    say("", *marked(FAILED, [text]), "")
    return short


def failure_told_once(task: Any, result: Dict[str, Any], host: str = "") -> Dict[str, Any]:
    """What Ansible gets of the failed result of a task of ours, which is told here: Ansible would write it twice, with lines of a
    playbook, and once more as JSON. A document for programs has all of it, and so has a play of somebody's own that goes on after
    it. ``host``: which one failed, if not all of the run."""
    if is_for_programs(C.DEFAULT_STDOUT_CALLBACK) or _is_read(task):
        return result
    text, code = str(result["msg"]), str(result["error_code"])
    begin = "%s: " % host if host else ""
    full = text if text.startswith(code) else "%s: %s" % (code, text)
    return {"failed": True, "error_code": code, "msg": tell_once(begin + full, "%s: see above" % code)}


def _is_read(task: Any) -> bool:
    """Whether a play of somebody's own goes on after it, and reads why it failed in the result."""
    if getattr(task, "ignore_errors", None):
        return True
    block = task._parent
    while block is not None and not getattr(block, "rescue", None):
        block = block._parent
    return block is not None
