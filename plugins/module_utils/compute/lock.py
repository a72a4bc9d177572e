# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lock between processes of one host: flock on a file, with a time limit, and a note of who holds it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time

from . import durable

POLL = 0.05


def _open(directory_fd, name):
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with durable.writing(name, directory_fd):
        return os.open(name, flags, 0o600, dir_fd=directory_fd)


def _is_current(fd, directory_fd, name):
    """Whether the name still refers to the locked file: the previous holder may have removed it on release."""
    try:
        there = os.stat(name, dir_fd=directory_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    here = os.fstat(fd)
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def _note_holder(fd, action):
    with contextlib.suppress(OSError):  # on a full disk the note is missing, and nothing else
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps({"pid": os.getpid(), "action": action}).encode(), 0)


def holder(fd):
    """Return who holds the lock, as the holder noted it: "action, process 123", or "an unknown run"."""
    try:
        note = json.loads(os.pread(fd, 4096, 0).decode())
        return "%s, process %d" % (note["action"], note["pid"])
    except (ValueError, KeyError, TypeError):
        return "an unknown run"


def acquire(open_lock_directory, name, timeout, action, busy):
    """Take the lock within ``timeout`` seconds. Return (directory fd, lock fd); the caller closes both.

    ``open_lock_directory`` opens (or creates) the directory on each try; ``busy(holder)`` returns the error to raise.
    """
    deadline = time.monotonic() + timeout
    while True:
        with contextlib.ExitStack() as stack:
            try:
                directory_fd = open_lock_directory()
                stack.callback(os.close, directory_fd)
                fd = _open(directory_fd, name)
            except FileNotFoundError:
                if time.monotonic() >= deadline:
                    raise
                continue  # whoever held the lock removed the empty directory between two calls
            stack.callback(os.close, fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise busy(holder(fd))
            else:
                if _is_current(fd, directory_fd, name):
                    _note_holder(fd, action)
                    stack.pop_all()
                    return directory_fd, fd
                continue
        time.sleep(POLL)
