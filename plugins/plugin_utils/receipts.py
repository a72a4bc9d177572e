# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Receipts on the controller: each decision on a host is kept for a while, with everything that it was made from.
state_directory.py deletes the oldest.

They are in the controller's directory, or in berth_receipt_dir. Variables: berth_receipts_mb, berth_receipts_days.
"""

from __future__ import annotations

import calendar
import contextlib
import os
import re
import secrets
import stat
import time
from typing import Any, ContextManager, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..module_utils.model.errors import BerthError, InvalidInput
from ..module_utils.model.schema import Text, Whole
from ..module_utils.placement import receipt_file
from ..module_utils.placement.explain import document, documents, host_rows
from ..module_utils.placement.receipt_file import ReceiptInvalid, decide_again
from ..module_utils.placement.weighing import MOST_SEED
from . import acting, state_directory
from .documents import write_document
from .plain import number
from .screen import warn
from .whose_fleet import Fleet, machines

DIRECTORY = "berth_receipt_dir"
NUMBERS = {"berth_receipts_days": Whole(1, 1 << 20, "days"), "berth_receipts_mb": Whole(0, 1 << 20, "MiB")}
VARIABLES = (DIRECTORY, *NUMBERS)
FOLDER = "receipts"
OURS = re.compile(r"[0-9]{8}T[0-9]{6}Z-r-[0-9a-f]{8}-[a-z_]+\.receipt\.gz")
IN_NAME = "%Y%m%dT%H%M%SZ"
LAST_SECOND = 253402300799  # of the year 9999, whose name is the last
SEED = "berth_seed"
_OF_SEED = Whole(0, MOST_SEED)
DEFAULTS = {"berth_receipts_days": 30, "berth_receipts_mb": 64}
MOST_BYTES = 1 << 28  # of a file that is read
FIRST_PART = 1 << 20  # bytes of a file that contain its first line
READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # opening never blocks, whatever the path names


class Settings(NamedTuple):
    directory: Optional[str]
    most_bytes: int  # 0: none are kept
    days: int


def settings(action: Any, task_vars: Dict[str, Any], directory: Optional[str] = None) -> Settings:
    """From the variables of the task's host (-e gives text). Check mode keeps no receipts. Raises InvalidInput."""
    values = action.own_variables(task_vars, VARIABLES)
    given = {name: value for name, value in values.items() if value not in ("", None)}
    found = {name: rule.check(number(given.get(name, DEFAULTS[name])), name) for name, rule in NUMBERS.items()}
    most = 0 if action._task.check_mode else found["berth_receipts_mb"] << 20
    wanted = directory or values.get(DIRECTORY) or None
    if wanted:
        wanted = os.path.expanduser(Text(longest=4096).check(wanted, DIRECTORY))
        if os.path.exists(wanted) and not os.path.isdir(wanted):
            raise InvalidInput(DIRECTORY, wanted, "a directory: this is a file")
    return Settings(wanted, most, found["berth_receipts_days"])


def keep(
    keeping: Settings, task_vars: Dict[str, Any], operation: str, decision: Any, again: bool = False
) -> Optional[str]:
    """Write the receipt of a placing.Decision and return its path. If it cannot be written, only warn: no run depends
    on it.
    berth_receipt_dir also gets a file without the hosts' documents, and its path is the one that is returned."""
    if not keeping.most_bytes or not decision.result:
        return None
    now = int(time.time())
    about = {
        **acting.by(),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
        "operation": operation,
        "instances": {request["name"]: request["uuid"] for request in decision.requests},
        "hosts": machines(task_vars, {*decision.fleet.documents, *decision.fleet.verdicts}, decision.fleet.uuids()),
    }
    which = operation + ("_again" if again else "")
    try:
        receipt = decision.receipt()
        data = receipt_file.pack(receipt, decision.texts, about)
        with _folder(keeping, make=True) as folder:
            name = "%s-%s-%s.receipt.gz" % (_time_in_name(folder, now), acting.RUN, which)
            state_directory.write_bounded(folder, name, data, OURS, keeping.most_bytes, keeping.days)
            if keeping.directory:
                name = "placement-%s%s.json" % (acting.RUN, "-again" if again else "")
                write_document(os.path.join(keeping.directory, name), receipt)
    except BerthError as error:
        warn("No receipt of this decision is kept: %s" % error)
        return None
    return os.path.join(place(keeping), name)


def _time_in_name(folder: int, now: int) -> str:
    """``now``, or a second after the newest receipt if that is later, as after the clock was set back: the last one written is
    the last by name."""
    seconds = now
    for name in _ours(folder)[:1]:
        with contextlib.suppress(ValueError):  # no such day
            seconds = max(seconds, calendar.timegm(time.strptime(name.split("-")[0], IN_NAME)) + 1)
    return time.strftime(IN_NAME, time.gmtime(min(seconds, LAST_SECOND)))


def read(path: str) -> Tuple[Dict[str, Any], Dict[str, Any], List[Any]]:
    """Return (head, receipt, documents) of a file. Raises ReceiptInvalid, which names the file."""
    try:
        return receipt_file.unpack(_bytes(path, MOST_BYTES))
    except ReceiptInvalid as error:
        raise of_file(path, error) from None


def explained(path: str, receipt: Dict[str, Any], fleet: List[Any], names: Sequence[str]) -> List[Dict[str, Any]]:
    """The verdicts on each host for each of the instances, as recorded; the receipt of a very large fleet has none, so
    they are computed again."""
    try:
        if receipt["matrix"] is None:
            requests = [document(answer) for answer in decide_again(receipt, fleet).requests]
        else:
            requests = list(documents(receipt["matrix"], names))
        return [next(request for request in requests if request["name"] == name) for name in names]
    except ReceiptInvalid as error:
        raise of_file(path, error) from None
    except (AttributeError, LookupError, StopIteration, TypeError, ValueError):
        raise of_file(path, ReceiptInvalid("it does not say why")) from None


def of_file(path: str, error: BerthError) -> ReceiptInvalid:
    return ReceiptInvalid("%s: %s" % (path, error), field="receipt", value=path)


def heads(keeping: Settings, fleet: Optional[Fleet] = None) -> Iterator[Tuple[str, Dict[str, Any]]]:
    """Yield (path, who decided what) of each receipt of the fleet, or of any, the newest first. Files that are no receipts are
    skipped."""
    for name in _names(keeping):
        path = os.path.join(place(keeping), name)
        with contextlib.suppress(ReceiptInvalid):
            head = receipt_file.read_head(_bytes(path, FIRST_PART, whole=False))
            if fleet is None or fleet.has(head.get("hosts")):
                yield path, head


def _names(keeping: Settings) -> List[str]:
    with _folder(keeping) as folder:
        return _ours(folder) if folder is not None else []


def _ours(folder: int) -> List[str]:
    """The names of the receipts, the newest first."""
    return sorted(filter(OURS.fullmatch, os.listdir(folder)), reverse=True)


def headline(path: str, head: Dict[str, Any]) -> str:
    """Who decided, and when."""
    return "%(at)s berth.kvm.%(operation)s by %(who)s, run %(run)s" % head + ", receipt %s" % path


def place(keeping: Settings) -> str:
    return keeping.directory or state_directory.path_of(FOLDER)


def _folder(keeping: Settings, make: bool = False) -> ContextManager[Optional[int]]:
    return _opened(keeping.directory, make) if keeping.directory else state_directory.opened(FOLDER, make)


@contextlib.contextmanager
def _opened(directory: str, make: bool) -> Iterator[int]:
    try:
        if make:
            os.makedirs(directory, mode=0o700, exist_ok=True)
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield fd
        finally:
            os.close(fd)
    except OSError as error:
        rule = "a directory that one may write to: %s" % error.strerror
        raise InvalidInput(DIRECTORY, directory, rule) from None


def _bytes(path: str, most: int, whole: bool = True) -> bytes:
    try:
        fd = os.open(path, READ)
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise ReceiptInvalid("it is not a file")
            data = file.read(most + 1 if whole else most)
    except (OSError, ValueError) as error:
        raise ReceiptInvalid("it cannot be read: %s" % (getattr(error, "strerror", None) or error)) from None
    if len(data) > most:
        raise ReceiptInvalid("it has more than %d MiB" % (most >> 20))
    return data


# The last decisions of this controller, for the report: where each instance went, and the verdict on each host.

MOST = 20  # decisions
MOST_RECEIPTS = 10  # each is read completely, and in a large fleet it contains all hosts


def recent(keeping: Settings, fleet: Fleet) -> List[Dict[str, Any]]:
    """[{at, operation, by, instance, uuid, host, error, hosts}], the newest first; ``hosts``: [{host, place, weight,
    why}]. A file that is no receipt, or has no explanation, is skipped. Raises InvalidInput if the directory cannot
    be read."""
    found: List[Dict[str, Any]] = []
    for seen, (path, head) in enumerate(heads(keeping, fleet)):
        if seen == MOST_RECEIPTS or len(found) >= MOST:
            break
        with contextlib.suppress(ReceiptInvalid):
            _head, receipt, documents_then = read(path)
            if receipt["matrix"] is not None:  # deciding again takes too long in such a large fleet
                names = sorted(head["instances"])
                found += [_decision(head, request) for request in explained(path, receipt, documents_then, names)]
    return found[:MOST]


def _decision(head: Dict[str, Any], explained: Dict[str, Any]) -> Dict[str, Any]:
    hosts = [dict(zip(("host", "place", "weight", "why"), row)) for row in host_rows(explained, 0)]
    return {
        "at": head["at"],
        "operation": head["operation"],
        "by": head["who"],
        "instance": explained["name"],
        "uuid": head["instances"][explained["name"]],
        "host": next((row["host"] for row in hosts if row["why"] == "chosen"), ""),
        "error": (explained["error"] or {}).get("message", ""),
        "hosts": hosts,
    }


def seed(variables: Mapping[str, Any], option: Optional[int] = None, approved: Optional[int] = None) -> int:
    """The seed of a decision's random choices: that of the task's ``option``, of the variable, or of what was approved; else one
    that is drawn for this decision alone. With the same one, controllers that decide at the same time would all choose the same
    host. Raises InvalidInput.
    """
    given = [value for value in (option, number(variables.get(SEED)), approved) if value is not None]
    return _OF_SEED.check(given[0], SEED) if given else secrets.randbelow(MOST_SEED + 1)
