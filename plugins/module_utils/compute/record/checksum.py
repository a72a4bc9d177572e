# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checksum in the file of a record, over the canonical JSON of all else: a bit that changed on the disk is no other size.

It names the generation that it is of. A version that does not know it keeps it as it is, so of a record that such a
version wrote it says nothing. A record without one is from an older version.
"""

from __future__ import annotations

import hashlib
import json

KEY = "checksum"


def canonical(data):
    return json.dumps(data, sort_keys=True, allow_nan=False).encode("utf-8")


def added(data):
    """Return the parts of a record with their checksum."""
    return {**data, KEY: {"generation": data["generation"], "sha256": _digest(data)}}


def checked(data):
    """Return the parts of a record without their checksum. Raise ValueError if they are not what was written."""
    if not isinstance(data, dict) or KEY not in data:
        return data
    parts = {name: part for name, part in data.items() if name != KEY}
    kept = data[KEY]
    if not isinstance(kept, dict) or set(kept) != {"generation", "sha256"}:
        raise ValueError("its checksum is none")
    if kept["sha256"] != _digest(parts) and not _is_of_another_write(kept, parts):
        raise ValueError("its checksum is that of another content: it changed on the disk, or was edited")
    return parts


def _is_of_another_write(kept, parts):
    """Whether more than the generation differs: a version that does not know the checksum wrote the record since."""
    before = {**parts, "generation": kept["generation"]}
    return parts.get("generation") != kept["generation"] and kept["sha256"] != _digest(before)


def _digest(data):
    return hashlib.sha256(canonical(data)).hexdigest()
