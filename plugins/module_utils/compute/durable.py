# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that survive a crash: written whole or not at all, never through a link, readable by their owner only."""

from __future__ import annotations

import contextlib
import os
import stat

from ..model import state_hints
from ..model.errors import BerthError
from .errors import StateUnsafe, reason

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700
LIMIT = 16 * 1024 * 1024


class TooLarge(StateUnsafe):
    """A state file is larger than any that berth writes."""


class StateNotWritten(BerthError):
    """A state file cannot be written, for example on a full or read-only file system. It was not changed."""

    retryable = True
    host_fault = True


@contextlib.contextmanager
def writing(name, directory_fd=None):
    """Turn an OSError while ``name`` is written into StateNotWritten, except for a missing directory."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        host, path = os.uname().nodename, _path(name, directory_fd)
        what = "%s on %s cannot be written: %s" % (path, host, reason(error, path))
        raise StateNotWritten(what, hint=state_hints.make_room(host))


def _path(name, directory_fd):
    """The whole path if the directory's is known: it tells people which file system is meant."""
    with contextlib.suppress(OSError, TypeError):
        return os.path.join(os.readlink("/proc/self/fd/%d" % directory_fd), name)
    return name


def open_directory(path, create=False, dir_fd=None, mode=DIRECTORY_MODE):
    """Open a directory of ours and return its file descriptor. With ``create``, make it and make its name durable."""
    if create:
        with writing(path, dir_fd), contextlib.suppress(FileExistsError):
            os.mkdir(path, mode, dir_fd=dir_fd)
            os.chmod(path, mode, dir_fd=dir_fd)
            _sync_parent(path, dir_fd)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unsafe("%s is not a directory of its own: %s" % (path, error.strerror))
    try:
        _check_ours(os.fstat(fd), path, allowed=mode)
    except StateUnsafe:
        os.close(fd)
        raise
    return fd


def make_directories(path, mode):
    """Make the directory with ``mode``, and those above with 0755, whatever the umask is. What is there stays as it is."""
    if os.path.isdir(path):
        return
    make_directories(os.path.dirname(path), 0o755)
    with writing(path), contextlib.suppress(FileExistsError):
        os.mkdir(path, mode)
        os.chmod(path, mode)
        _sync_parent(path, None)


def _sync_parent(path, dir_fd):
    if dir_fd is not None:
        os.fsync(dir_fd)
        return
    parent = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def _check_ours(status, path, allowed):
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o777 & ~allowed:
        raise _unsafe(
            "%s is owned by uid %d with mode %04o" % (path, status.st_uid, stat.S_IMODE(status.st_mode)),
            rule="owned by uid %d, mode at most %04o" % (os.geteuid(), allowed),
        )


def _unsafe(message, **more):
    return StateUnsafe(message, hint=state_hints.close_to_others(os.uname().nodename), **more)


def read(directory_fd, name):
    """Return the bytes of a file, or None if there is none. Refuse a link, and a file that others may read."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=directory_fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unsafe("%s cannot be read: %s" % (name, error.strerror))
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise _unsafe("%s is not a plain file" % name)
        _check_ours(status, name, allowed=FILE_MODE)
        if status.st_size > LIMIT:
            raise TooLarge("%s has %d bytes, more than berth writes there" % (name, status.st_size))
        parts = []
        part = os.read(fd, 1 << 20)
        while part:
            parts.append(part)
            part = os.read(fd, 1 << 20)
        return b"".join(parts)
    finally:
        os.close(fd)


def write(directory_fd, name, data, mode=FILE_MODE, group=None, temporary=None):
    """Replace a file: temporary file in the same directory, fsync, rename, fsync of the directory.

    After a crash or an error at any point, the file is wholly the old or wholly the new one. The caller holds a lock,
    so nobody else uses the fixed temporary name. ``mode`` and ``group`` are for files that others have to read.
    """
    with writing(name, directory_fd):
        _write(directory_fd, name, data, mode, group, temporary or _temporary(name))


def _write(directory_fd, name, data, mode, group, temporary):
    _unlink(directory_fd, temporary)
    fd = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE, dir_fd=directory_fd
    )
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if group is not None:
            os.fchown(fd, -1, group)
        if mode != FILE_MODE:
            os.fchmod(fd, mode)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temporary, name, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
    os.fsync(directory_fd)


def read_in(path, name, mode=DIRECTORY_MODE):
    """Return the bytes of a file in the directory ``path``, or None if there is no such directory or file."""
    try:
        directory = open_directory(path, mode=mode)
    except FileNotFoundError:
        return None
    try:
        return read(directory, name)
    finally:
        os.close(directory)


def write_in(path, name, data, create=False, mode=DIRECTORY_MODE):
    """Replace a file in the directory ``path``. With ``create``, make the directory."""
    directory = open_directory(path, create=create, mode=mode)
    try:
        write(directory, name, data)
    finally:
        os.close(directory)


def write_at(path, data, mode, group=None, temporary=None):
    """Replace a file in a system directory, which need not be ours."""
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        write(directory, os.path.basename(path), data, mode, group, temporary)
    finally:
        os.close(directory)


def read_at(path, most=16 << 20):
    """Return the first ``most`` bytes of a file in a system directory, which need not be ours. Raise ValueError if it is none."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError("it is no file")
        return file.read(most)


def _temporary(name):
    return ".%s.tmp" % name


def discard_temporary(directory_fd, name):
    """Remove what a crash in ``write`` may have left behind."""
    with writing(name, directory_fd):
        _unlink(directory_fd, _temporary(name))


def remove(directory_fd, name):
    """Remove a file durably, if it exists."""
    with writing(name, directory_fd):
        if _unlink(directory_fd, name):
            os.fsync(directory_fd)


def remove_at(path):
    """Remove the file at ``path`` durably, in a directory that need not be ours."""
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        remove(directory, os.path.basename(path))
    finally:
        os.close(directory)


def _unlink(directory_fd, name):
    try:
        os.unlink(name, dir_fd=directory_fd)
    except FileNotFoundError:
        return False
    return True


@contextlib.contextmanager
def private():
    """Only root can read the files that are made meanwhile, from their first byte."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
