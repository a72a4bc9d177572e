# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is sent to a host for a module of ours: its arguments and the digest of its code, which the host has kept.

Only where it has not, the code is sent as well, a second time. Ansible's wrapper ends with ``_ansiballz_main(..., zip_data='...')``:
in place of that text stands a call of ``kept_zip``, of module_utils/compute/kept_code.py. All else stays as Ansible made it, and
a wrapper that looks otherwise is sent as it is.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import io
import re
import struct
import zipfile
from pathlib import Path
from typing import Any

from ansible import constants

_SOURCE = Path(__file__).parents[1] / "module_utils" / "compute" / "kept_code.py"
# Ansible's wrapper has the line with __future__ already, where Python wants it.
KEPT_CODE = _SOURCE.read_bytes().partition(b"from __future__ import annotations\n")[2]
CALL = b'\nif __name__ == "__main__":\n    _ansiballz_main(\n'
ZIP = re.compile(rb"^zip_data='([A-Za-z0-9+/=]+)',$", re.MULTILINE)
PLAIN = b"\nextensions={},\n"  # no debugger and no coverage: they want the files as they are


class Sending:
    """One run of a module on a host."""

    def __init__(self) -> None:
        self._digest: str | None = None
        self._with_code = False

    def form(self, built: Any, check_mode: bool) -> Any:
        """What Ansible has built as it is sent. In check mode the host keeps nothing."""
        text = built.b_module_data
        zips = ZIP.findall(text)
        if len(zips) != 1 or text.count(CALL) != 1 or PLAIN not in text or constants.DEFAULT_KEEP_REMOTE_FILES:
            return built
        self._digest = digest_of(zips[0])
        given = "%r, %r" % (self._digest, not check_mode)
        if self._with_code:
            given += ", %r" % zips[0].decode()
        text = ZIP.sub(lambda _found: b"zip_data=kept_zip(%s)," % given.encode(), text)
        return dataclasses.replace(built, b_module_data=text.replace(CALL, KEPT_CODE + b"\n" + CALL))

    def has_to_have_code(self, reply: Any) -> bool:
        """Whether the host says that it lacks the code. It is believed once."""
        if self._with_code or not self._digest or reply.get("missing_code") != self._digest:
            return False
        self._with_code = True
        return True


@functools.lru_cache(maxsize=1)  # a process asks its hosts for the same module
def digest_of(zip_data: bytes) -> str:
    """That of the code itself, as it is compressed: Ansible puts the time into the zip."""
    data, made = base64.b64decode(zip_data), hashlib.sha256(KEPT_CODE)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in sorted(archive.infolist(), key=lambda member: member.filename):
            # after the local header, which ends with the lengths of the name and of what else follows it
            begin = member.header_offset + 30 + sum(struct.unpack_from("<HH", data, member.header_offset + 26))
            made.update(b"\0%s\0%d\0" % (member.filename.encode(), member.compress_size))
            made.update(data[begin : begin + member.compress_size])
    return made.hexdigest()
