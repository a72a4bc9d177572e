# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checksum of an image's file as its publisher states it: sha256 or sha512, or the address of a list that has it."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Optional

from .errors import InvalidInput

CHECKSUM = re.compile(r"(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})\Z", re.ASCII)
LIST = re.compile(r"https?://[^\s@#]+\Z", re.ASCII)
# A list and the name of the file in it.
IN_LIST = re.compile(r"(https?://[^\s@#]+)#([^\s#/]+)\Z", re.ASCII)
RULE = "sha256: and 64, or sha512: and 128 hexadecimal digits in lower case"
# Lines of a list: as sha256sum and as BSD's sha256 write them.
_GNU = re.compile(r"([0-9a-fA-F]{128}|[0-9a-fA-F]{64})(?:[ \t]+\*?(?:\./)?(\S+))?\s*\Z", re.ASCII)
_BSD = re.compile(r"SHA(?:256|512) \((?:\./)?([^)]+)\) = ([0-9a-fA-F]{64,128})\s*\Z", re.ASCII)
_KINDS = {64: "sha256", 128: "sha512"}


class Checksum:
    """A checksum."""

    rule = RULE

    def check(self, value: Any, field: str) -> str:
        if not isinstance(value, str) or not CHECKSUM.match(value):
            raise InvalidInput(field, value, self.rule)
        return value


class ImageChecksum:
    """A checksum, or the address of a publisher's list; list#name is what becomes of it once the file's name is known."""

    rule = RULE + ", or the http(s) address of a list of them such as https://.../SHA512SUMS"

    def check(self, value: Any, field: str) -> str:
        if not isinstance(value, str) or len(value) > 2048 or not (CHECKSUM.match(value) or LIST.match(value)):
            raise InvalidInput(field, value, self.rule)
        return value


def of_file(checksum: str, url: Optional[str]) -> str:
    """Return the checksum, of a list with the name that the file at ``url`` has in it."""
    name = (url or "").partition("?")[0].rpartition("/")[2]
    return "%s#%s" % (checksum, name) if LIST.match(checksum) else checksum


def hasher(checksum: str) -> Any:
    return hashlib.new(checksum.partition(":")[0])


def find(text: str, name: str) -> Optional[str]:
    """Return the checksum of the file ``name`` in a list, which may also be one checksum alone; None if it has none."""
    lines = [line for line in text.splitlines() if line.strip()]
    for line in lines:
        gnu, bsd = _GNU.match(line), _BSD.match(line)
        digits, of = (gnu.group(1), gnu.group(2)) if gnu else (bsd.group(2), bsd.group(1)) if bsd else ("", None)
        if len(digits) in _KINDS and (of == name or of is None and len(lines) == 1):
            return "%s:%s" % (_KINDS[len(digits)], digits.lower())
    return None
