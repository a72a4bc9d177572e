# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's own directory, ${XDG_STATE_HOME:-~/.local/state}/berth, for its owner only; and how receipts and
other files are kept within a size and an age, deleting the oldest first.

Its files help people; no run acts on them. So a directory that cannot be used is a warning and stops nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from typing import Iterator, List, Optional, Tuple

from ..module_utils.model import fleet_hints
from ..module_utils.model.errors import BerthError
from .documents import TEMPORARY, write_file

NAME = "berth"
DAY, HOUR = 86400, 3600
FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class StateUnusable(BerthError):
    """The controller's directory for receipts and failed requests cannot be read or written."""


def path_of(*parts: str) -> str:
    """The path of a part of it. As the XDG specification says, a relative path in XDG_STATE_HOME is ignored."""
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):
        home = os.environ.get("HOME") or os.path.expanduser("~")
        if not os.path.isabs(home):
            raise StateUnusable(
                "there is no home directory, and XDG_STATE_HOME is no absolute path",
                hint=fleet_hints.writable_state_home(),
            )
        base = os.path.join(home, ".local", "state")
    return os.path.join(base, NAME, *parts)


@contextlib.contextmanager
def opened(part: str, make: bool = False) -> Iterator[Optional[int]]:
    """The open directory ``part``, None if it does not exist. Raises StateUnusable."""
    path = path_of()
    opens: List[int] = []
    try:
        try:
            if make:
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            opens.append(_open(path, None, make))
            opens.append(_open(part, opens[0], make))
        except FileNotFoundError:
            if make:
                raise
            yield None
            return
        yield opens[-1]
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise StateUnusable("%s: %s" % (path_of(part), why), hint=fleet_hints.writable_state_home()) from None
    finally:
        for fd in opens:
            os.close(fd)


def _open(name: str, folder: Optional[int], make: bool) -> int:
    """Refuse a directory that somebody else may have put there: it must be no link and belong to the current user."""
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=folder)
    fd = os.open(name, FLAGS, dir_fd=folder)
    try:
        found = os.fstat(fd)
        if found.st_uid != os.geteuid():
            raise StateUnusable("%s belongs to another user" % (name if folder is None else path_of(name)))
        if make and stat.S_IMODE(found.st_mode) & 0o077:
            os.fchmod(fd, 0o700)
    except BaseException:
        os.close(fd)
        raise
    return fd


def write_bounded(folder: int, name: str, data: bytes, ours: "re.Pattern[str]", most_bytes: int, days: int) -> None:
    """Delete the oldest of ``ours`` to make room for a file and write it. Raises StateUnusable if it is too large."""
    if len(data) > most_bytes:
        raise StateUnusable("%s has %d bytes, more than there may be" % (name, len(data)))
    files, now = [file for file in _files(folder, ours) if file[1] != name], time.time()
    room = most_bytes - len(data) - sum(size for _at, _name, size in files)
    for changed, other, size in files:
        if room >= 0 and changed >= now - days * DAY:
            break
        with contextlib.suppress(FileNotFoundError):  # another run removed it
            os.unlink(other, dir_fd=folder)
        room += size
    write_file(folder, name, data, 0o600)


def _files(folder: int, ours: "re.Pattern[str]") -> List[Tuple[float, str, int]]:
    """(changed, name, size) of each, the oldest first; with incomplete files of killed runs, not of running ones."""
    found = []
    for name in os.listdir(folder):
        if ours.fullmatch(TEMPORARY.sub("", name)):
            with contextlib.suppress(FileNotFoundError):
                file = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if not TEMPORARY.search(name) or file.st_mtime < time.time() - HOUR:
                    found.append((file.st_mtime, name, file.st_size))
    return sorted(found)
