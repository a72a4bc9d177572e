# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that failed before any host took part in them (no valid host, over quota, refused), kept on the controller.

Nova has an instance in state ERROR for each. Here it is a file in the controller's directory, until the same instance
is created, moved or deleted, or 30 days have passed. It is for people: no run acts on it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from typing import Any, Collection, Dict, Iterable, Mapping

from ..module_utils.model.errors import BerthError
from ..module_utils.model.identity import instance_uuid
from ..module_utils.model.safe_text import clean, clean_all
from . import acting, receipts, state_directory
from .answers_of_hosts import replies
from .documents import read_whole
from .inventory_variables import kvm_hosts
from .screen import warn

FOLDER = "failed"
OURS = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.json")
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
    _forget(done)
    about = {**acting.by(), "operation": operation, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    about["hosts"] = list(replies(task_vars, "__berth_facts")) or kvm_hosts(task_vars)
    try:
        for failure in failures:
            uuid = instance_uuid(failure["project"], failure["name"])
            document = {**about, **failure, "uuid": uuid, "message": clean(failure["message"], LONGEST)}
            with state_directory.opened(FOLDER, make=True) as folder:
                data = json.dumps(document).encode("ascii")
                state_directory.write_bounded(folder, uuid + ".json", data, OURS, ALL_BYTES, DAYS)
    except BerthError as error:
        warn("The failure of this request is not remembered: %s" % error)


def _forget(uuids: Iterable[str]) -> None:
    with contextlib.suppress(BerthError), state_directory.opened(FOLDER) as folder:
        for uuid in uuids if folder is not None else ():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(uuid + ".json", dir_fd=folder)


def known(hosts: Collection[str]) -> Dict[str, Dict[str, Any]]:
    """Instance uuid -> its failure, of requests to a fleet with one of these hosts: a controller may serve several."""
    found: Dict[str, Dict[str, Any]] = {}
    with contextlib.suppress(BerthError), state_directory.opened(FOLDER) as folder:
        for name in filter(OURS.fullmatch, os.listdir(folder) if folder is not None else ()):
            with contextlib.suppress(OSError, ValueError, RecursionError):
                request = clean_all(json.loads(read_whole(folder, name)))
                if (
                    _is_whole(request)
                    and request["uuid"] + ".json" == name
                    and not set(hosts).isdisjoint(request["hosts"])
                ):
                    found[request["uuid"]] = request
    return found


def line(request: Mapping[str, str]) -> str:
    return "%(operation)s failed at %(at)s by %(who)s in run %(run)s: %(code)s: %(message)s" % request


def _is_whole(request: Any) -> bool:
    """Whether nothing is missing: people may have edited the file."""
    if not isinstance(request, dict) or not isinstance(request.get("hosts"), list):
        return False
    return all(isinstance(text, str) for text in [*(request.get(name) for name in TEXTS), *request["hosts"]])
