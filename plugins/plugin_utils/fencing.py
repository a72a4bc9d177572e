# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switches a KVM host off by a fence agent (Debian's fence-agents), and makes sure that it is off.

The agent runs on the controller. It gets its options on its standard input, one key=value a line, so no secret is on a
command line. What it prints is shown without the values of its options.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from typing import Any, Dict, Iterable, Mapping, Tuple

from ..module_utils.conductor.errors import FenceFailed
from ..module_utils.model import copy_hints
from ..module_utils.model.errors import InvalidInput
from ..module_utils.model.safe_text import clean
from ..module_utils.model.schema import Text
from .inventory_variables import variables

VARIABLE = "berth_fence"
PLACES = "/usr/sbin:/sbin:/usr/local/sbin"
SECONDS, PAUSE = 120, 2  # for each answer of the agent, and until the host is off
ON, OFF = 0, 2  # what status returns
AGENT = Text(r"fence_[A-Za-z0-9_-]+\Z", "the name of a fence agent, such as fence_ipmilan", longest=64)
OPTION = Text(r"[A-Za-z][A-Za-z0-9_-]*\Z", "an option of the agent, as its manual page calls it", longest=64)
HIDDEN = "<not shown>"  # it may be a password
FORM = "a mapping with agent: fence_ipmilan, and the options of that agent, such as ip, username and password"


def agent_of(task_vars: Dict[str, Any], host: str, hosts: Iterable[str]) -> Tuple[str, Dict[str, str]]:
    """(the path of the agent, its options) of the host, which is one of ``hosts``. Raises InvalidInput."""
    given, field = variables(task_vars, host, [VARIABLE]).get(VARIABLE), "%s of %s" % (VARIABLE, host)
    if given is None:
        raise InvalidInput(field, None, FORM, hint=copy_hints.name_lost_hosts())
    for other in hosts:
        if other != host and variables(task_vars, other, [VARIABLE]).get(VARIABLE) == given:
            rule = "options of its own: %s has the same, so the wrong host could be switched off" % other
            raise InvalidInput(field, HIDDEN, rule)
    return checked(host, given)


def checked(host: str, value: Any) -> Tuple[str, Dict[str, str]]:
    """(the path of the agent, its options) of berth_fence of a host. Raises InvalidInput, without a value of an option."""
    field = "%s of %s" % (VARIABLE, host)
    if not isinstance(value, dict) or "agent" not in value:
        raise InvalidInput(field, HIDDEN, FORM)
    agent = AGENT.check(value["agent"], field + ".agent")
    path = shutil.which(agent, path="%s:%s" % (os.environ.get("PATH", ""), PLACES))
    if path is None:
        raise InvalidInput(field + ".agent", agent, "a fence agent on the controller: install fence-agents there")
    options = {}
    for name, given in value.items():
        if name == "agent":
            continue
        OPTION.check(name, field)
        text = str(given)
        if isinstance(given, (dict, list)) or not text.isprintable() or name in ("action", "option"):
            raise InvalidInput("%s.%s" % (field, name), HIDDEN, "one line of text or a number, and no action")
        options[str(name)] = text
    return path, options


def is_off(host: str, path: str, options: Mapping[str, str]) -> bool:
    """Whether the agent says that the host is off. Raises FenceFailed if it says nothing of the kind."""
    code, said = _run(path, {**options, "action": "status"})
    if code not in (ON, OFF):
        raise _failed(host, path, options, "its status ended with %s" % code, said)
    return code == OFF


def switch_off(host: str, path: str, options: Mapping[str, str]) -> None:
    """Switch the host off and see that it is. Raises FenceFailed."""
    code, said = _run(path, {**options, "action": "off"})
    if code:
        raise _failed(host, path, options, "off ended with %s" % code, said)
    until = time.monotonic() + SECONDS
    while not is_off(host, path, options):
        if time.monotonic() >= until:
            raise _failed(host, path, options, "the host was still on %d s after off" % SECONDS, "")
        time.sleep(PAUSE)


def _run(path: str, options: Mapping[str, str]) -> Tuple[Any, str]:
    """(exit code, or why there is none, what it printed on stderr)."""
    lines = "".join("%s=%s\n" % each for each in options.items())
    try:
        started = subprocess.Popen(
            [path],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:  # such as an agent whose interpreter is not there
        return "no start: %s" % error.strerror, ""
    with started as agent:
        try:
            _out, said = agent.communicate(lines, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(agent.pid, signal.SIGKILL)
            return "no answer in %d s" % SECONDS, ""
    return agent.returncode, said


def _failed(host: str, path: str, options: Mapping[str, str], why: str, said: str) -> FenceFailed:
    for value in sorted(options.values(), key=len, reverse=True):
        said = said.replace(value, "***") if value else said
    text = "%s: %s: %s" % (host, os.path.basename(path), why)
    last = clean(" ".join(said.split())[-300:], 300)
    return FenceFailed(
        "%s%s" % (text, " (%s)" % last if last else ""),
        hint=copy_hints.name_lost_hosts(),
        host=host,
    )
