# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that failed before any host took part in them (no valid host, over quota, refused), kept on the controller.

Nova has an instance in state ERROR for each. Here it is a file in the controller's directory, until the same instance
is created, moved or deleted, or 30 days have passed. It is for people: no run acts on it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Set, Tuple

from ..module_utils.model.errors import BerthError
from ..module_utils.model.identity import instance_uuid
from ..module_utils.model.safe_text import clean, clean_all
from . import acting, receipts, state_directory
from .answers_of_hosts import replies
from .documents import read_whole
from .inventory_variables import kvm_hosts
from .screen import warn
from .whose_fleet import Fleet, machines

FOLDER = "failed"
OURS = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(-r-[0-9a-f]{8})?\.json")
UUID = 36  # characters of a name that are the instance's
ALL_BYTES, DAYS = 4 << 20, 30
LONGEST = 1000
TEXTS = ("uuid", "name", "project", "operation", "code", "message", "at", "who", "run")


def settle(
    action: Any,
    task_vars: Dict[str, Any],
    operation: str,
    failed: Iterable[Mapping[str, str]],
    done: Iterable[str] = (),
) -> None:
    """Keep ``failed`` [{name, project, code, message}], and forget the instances ``done`` (uuids). Not in check mode,
    nor if no receipts are kept."""
    failures = list(failed)
    if not receipts.settings(action, task_vars).most_bytes:
        return
    hosts = list(replies(task_vars, "__berth_facts")) or kvm_hosts(task_vars)
    whose = functools.cache(lambda: machines(task_vars, hosts))  # mostly there is nothing to keep or forget
    _forget(
        functools.cache(lambda: Fleet(whose())),
        {*done, *(instance_uuid(each["project"], each["name"]) for each in failures)},
    )
    about = {**acting.by(), "operation": operation, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    try:
        for failure in failures:
            uuid = instance_uuid(failure["project"], failure["name"])
            document = {
                **about,
                "hosts": whose(),
                **failure,
                "uuid": uuid,
                "message": clean(failure["message"], LONGEST),
            }
            with state_directory.opened(FOLDER, make=True) as folder:
                data = json.dumps(document).encode("ascii")
                state_directory.write_bounded(folder, _free_name(folder, uuid), data, OURS, ALL_BYTES, DAYS)
    except BerthError as error:
        warn("The failure of this request is not remembered: %s" % error)


def _free_name(folder: int, uuid: str) -> str:
    """One fleet's file has the name of the instance alone; that of another fleet with such an instance has the run's, too."""
    return uuid + (".json" if uuid + ".json" not in os.listdir(folder) else "-%s.json" % acting.RUN)


def _forget(fleet: Callable[[], Fleet], uuids: Set[str]) -> None:
    with contextlib.suppress(BerthError), state_directory.opened(FOLDER) as folder:
        for name, _request in _of(fleet, folder, uuids) if folder is not None else ():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)


def known(fleet: Fleet) -> Dict[str, Dict[str, Any]]:
    """Instance uuid -> its failure, of the requests to this fleet."""
    found: Dict[str, Dict[str, Any]] = {}
    with contextlib.suppress(BerthError), state_directory.opened(FOLDER) as folder:
        for _name, request in _of(lambda: fleet, folder) if folder is not None else ():
            found.setdefault(request["uuid"], request)
    return found


def _of(fleet: Callable[[], Fleet], folder: int, uuids: Optional[Set[str]] = None) -> List[Tuple[str, Dict[str, Any]]]:
    """(file, request) of each request to the fleet, or only of these instances, the newest first."""
    found: List[Tuple[str, Dict[str, Any]]] = []
    for name in filter(OURS.fullmatch, os.listdir(folder)):
        if uuids is None or name[:UUID] in uuids:
            with contextlib.suppress(OSError, ValueError, RecursionError):
                request = clean_all(json.loads(read_whole(folder, name)))
                if _is_whole(request) and request["uuid"] == name[:UUID]:
                    found.append((name, request))
    newest = sorted(found, key=lambda each: str(each[1]["at"]), reverse=True)
    return [each for each in newest if fleet().has(each[1]["hosts"])]


def line(request: Mapping[str, str]) -> str:
    return "%(operation)s failed at %(at)s by %(who)s in run %(run)s: %(code)s: %(message)s" % request


def _is_whole(request: Any) -> bool:
    """Whether nothing is missing: people may have edited the file."""
    if not isinstance(request, dict) or not isinstance(request.get("hosts"), (dict, list)):
        return False
    return all(isinstance(request.get(name), str) for name in TEXTS)
