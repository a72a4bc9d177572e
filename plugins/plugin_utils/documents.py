# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files on the controller: written completely or not at all, and durable after a power cut."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import stat
from typing import Any, BinaryIO, Callable, Optional

import yaml

from ..module_utils.model.errors import InvalidInput

# The end of the name of an incomplete file, which a killed run leaves.
TEMPORARY = re.compile(r"(\.[0-9a-f]{16})?\.tmp\Z")


MOST_BYTES = 1 << 20  # of a file that is read


def check_replaceable(path: str, field: str, value: Any, is_ours: Callable[[BinaryIO], bool], rule: str) -> None:
    """Raise InvalidInput about the ``field`` with this ``value`` if there is something else at ``path`` than an empty file
    or one of which ``is_ours`` is true: replaced, it would be lost. Also if it has no directory: nothing can be written there."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            raise unwritable(field, value, error) from None
        return
    except OSError as error:
        why = "this is a link" if error.errno == errno.ELOOP else error.strerror
        raise InvalidInput(field, value, "a file that is no link and can be read: %s" % why) from None
    try:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise InvalidInput(field, value, "a file: this is a directory")
        if not _is_replaceable(fd, is_ours):
            raise InvalidInput(field, value, rule)
    finally:
        os.close(fd)


def _is_replaceable(fd: int, is_ours: Callable[[BinaryIO], bool]) -> bool:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        return False
    with open(fd, "rb", closefd=False) as file:
        return not status.st_size or is_ours(file)


def write_document(path: str, document: Any) -> None:
    """Write the document as JSON, readable by its owner only, completely or not at all."""
    write_private(path, json.dumps(document, sort_keys=True).encode("utf-8"))


def write_private(path: str, data: bytes) -> None:
    """Write a file readable by its owner only, completely or not at all."""
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        write_file(folder, os.path.basename(path), data, 0o600)
    finally:
        os.close(folder)


def write_named(path: str, data: bytes, field: str) -> None:
    """Write a file that a person has named in ``field``, as write_private does. Raises InvalidInput."""
    try:
        write_private(path, data)
    except OSError as error:
        raise unwritable(field, path, error) from None


def unwritable(field: str, value: Any, error: OSError) -> InvalidInput:
    return InvalidInput(field, value, "a file in a directory that one may write to: %s" % error.strerror)


def write_file(folder: int, name: str, data: bytes, mode: int) -> None:
    """Replace the file ``name`` in the open directory ``folder``. Two runs that write it at once do not mix."""
    new = "%s.%s.tmp" % (name, secrets.token_hex(8))
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:  # such as a full disk: leave no half-written file
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=folder)
        raise
    os.fsync(folder)


def read_whole(folder: int, name: str) -> bytes:
    """Read the file ``name`` in the open directory ``folder``. Raises OSError if it is no file, or too long."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(fd, "rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError("%s has more than %d bytes" % (name, MOST_BYTES))
    return data


def no_mapping(text: str) -> Optional[str]:
    """Why ``text`` is no mapping in YAML, without any of it: it may be secret. None if it is one, or empty."""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        return "no valid YAML" + (": line %d" % (mark.line + 1) if mark else "")
    return None if found is None or isinstance(found, dict) else "no mapping"


def read_yaml(path: str, field: str, rule: str, most_bytes: int) -> Any:
    """What a YAML file holds that a person has named in ``field``. Raises InvalidInput."""
    try:
        with open(path, encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_size > most_bytes:
                raise InvalidInput(field, path, "at most %d bytes" % most_bytes)
            return yaml.safe_load(file)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(field, path, "%s: %s" % (rule, why)) from None
