# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits on what one host may cost the controller that asks it: seconds and memory, which delegates.py enforces, and
the check of the size and depth of its reply.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterable, Optional

from ..module_utils.model.errors import InvalidInput
from .inventory_variables import variables
from .plain import plain

TIMEOUT = "berth_host_timeout"
SECONDS = 60  # for facts, claims, records and everything not named below
HOUR = 3600
SHUTDOWN = 24 * HOUR  # the most that berth_shutdown_timeout may be
# Seconds for downloads, installations and copies, which take as long as they are large, added to those of the host.
# By action, or by action and state.
WORK = {
    "backup_store": 72 * HOUR,
    "build_instances": SHUTDOWN + 6 * HOUR,
    "cached_image": 6 * HOUR,
    "instance": SHUTDOWN + 6 * HOUR,
    "instance_backup": 72 * HOUR,
    "instance_copy": SHUTDOWN + HOUR,
    "migration": 72 * HOUR,
    "volume present": 6 * HOUR,
    "host_prepare": HOUR,
    "host_task": HOUR,
}
MEMORY = 384 << 20  # bytes that the process that asks one host may grow since its start
BYTES = 16 << 20  # of texts and names; 10,000 instances in a host's facts take less
PARTS = 1_000_000
DEPTH = 32
RULE = "at most %d MiB of text, %d parts and %d levels" % (BYTES >> 20, PARTS, DEPTH)
PAGE = os.sysconf("SC_PAGE_SIZE")


def host_timeouts(task_vars: Dict[str, Any], hosts: Iterable[str]) -> Dict[str, int]:
    """Host -> the seconds within which it must answer, its variable berth_host_timeout."""
    known = task_vars["hostvars"]
    given = {host: variables(task_vars, host, [TIMEOUT]) if host in known else {} for host in hosts}
    return {host: _seconds(values.get(TIMEOUT, SECONDS)) for host, values in given.items()}


def task_seconds(task_vars: Dict[str, Any], host: str, action: str, state: Any = None) -> int:
    """The seconds within which a task of ``action``, with the argument ``state``, must end on the host."""
    return host_timeouts(task_vars, [host])[host] + WORK.get(action, WORK.get("%s %s" % (action, state), 0))


def _seconds(value: Any) -> int:
    if not re.fullmatch("[0-9]{1,5}", str(value)) or not 1 <= int(value) <= 86400:
        raise InvalidInput(TIMEOUT, plain(value), "whole seconds from 1 to 86400")
    return int(value)


def resident(pid: Any = "self") -> int:
    """Bytes of a process in memory; 0 if unknown: it ended, or the controller does not run Linux."""
    try:
        with open("/proc/%s/statm" % pid, encoding="ascii") as file:
            return int(file.read().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def excess(reply: Any) -> Optional[str]:
    """What a reply has too much of, or None. Not recursive: a reply may be deeper than Python's stack."""
    size, parts, level = 0, 0, [reply]
    for _depth in range(DEPTH):
        inner: list = []
        for part in level:
            if isinstance(part, (str, bytes)):
                size += len(part)
            elif isinstance(part, dict):
                size += sum(len(key) for key in part if isinstance(key, str))
                inner += part.values()
            elif isinstance(part, (list, tuple)):
                inner += part
        parts += len(inner)
        if size > BYTES:
            return "more than %d MiB of text" % (BYTES >> 20)
        if parts > PARTS:
            return "more than %d parts" % PARTS
        if not inner:
            return None
        level = inner
    return "more than %d levels" % DEPTH
