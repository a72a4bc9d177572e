# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that cloud-init writes into a guest at its first boot: berth_files. No error repeats their contents."""

from __future__ import annotations

import base64
import binascii
import posixpath
from typing import Any, List

from .errors import InvalidInput
from .messages import Document
from .schema import Fields, ListOf, OneOf, Secret, Text

MOST_FILES = 64
MOST_BYTES = 1 << 20
MODE = "0644"  # cloud-init's default
OWNER = "root:root"
_NAME = r"[A-Za-z_][A-Za-z0-9_.-]*"


class _Path:
    """The absolute path of a file, written in one way only."""

    text = Text(longest=255)
    rule = "an absolute path of at most 255 characters without .., . and //, of a file"

    def check(self, value: Any, field: str) -> str:
        path = self.text.check(value, field)
        if not path.startswith("/") or path.startswith("//") or posixpath.normpath(path) != path or path == "/":
            raise InvalidInput(field, path, self.rule)
        if "\n" in path:
            raise InvalidInput(field, path, "a path of one line")
        return path


class _Content:
    """Text of any kind."""

    rule = "text; binary content is given in base64, with encoding base64"

    def check(self, value: Any, field: str) -> str:
        if not isinstance(value, str):
            raise InvalidInput(field, value, self.rule)
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidInput(field, value, self.rule) from None
        return str(value)


class _Files:
    """A list of {path, content, encoding, mode, owner}; each path once."""

    files = ListOf(
        Fields(
            {
                "path": _Path(),
                "content": _Content(),
                "encoding": OneOf("text", "base64"),
                "mode": Text(r"0?[0-7]{3,4}\Z", "an octal number in quotes such as '0600'"),
                "owner": Text(r"%s(:%s)?\Z" % (_NAME, _NAME), "user, or user:group", longest=65),
            },
            defaults={"encoding": "text", "mode": MODE, "owner": OWNER},
        ),
        longest=MOST_FILES,
    )

    def check(self, value: Any, field: str) -> List[Document]:
        files = self.files.check(value, field)
        size, seen = 0, set()
        for at, file in enumerate(files):
            size += len(_bytes(file, "%s[%d].content" % (field, at)))
            if file["path"] in seen or any(file["path"].startswith(other["path"] + "/") for other in files):
                rule = "each path once, and none below another"
                raise InvalidInput("%s[%d].path" % (field, at), file["path"], rule)
            seen.add(file["path"])
        if size > MOST_BYTES:
            raise InvalidInput(field, None, "at most %d bytes in all files together, not %d" % (MOST_BYTES, size))
        return files


FILES = Secret(_Files(), shown=("path", "encoding", "mode", "owner"))


def write_files(files: List[Document]) -> List[Document]:
    """Return the files in cloud-init's write_files format; those of users other than root wait until users exist."""
    return [
        {
            "path": file["path"],
            "content": base64.b64encode(_bytes(file, "berth_files")).decode("ascii"),
            "encoding": "b64",
            "permissions": file["mode"],
            "owner": file["owner"] if ":" in file["owner"] else "%s:%s" % (file["owner"], file["owner"]),
            **({} if file["owner"].partition(":")[0] == "root" else {"defer": True}),
        }
        for file in files
    ]


def _bytes(file: Document, field: str) -> bytes:
    if file["encoding"] == "text":
        return str(file["content"]).encode("utf-8")
    try:
        return base64.b64decode("".join(file["content"].split()), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput(field, None, "valid base64, as encoding says") from None
