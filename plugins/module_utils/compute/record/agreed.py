# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The comparisons of this host that found no difference, so that what has not changed since is not parsed again.

The file has a digest of each: of the rules, of what the record demands and of all that libvirt said. So what it says is
true whenever it is read, and a file that is missing, old, cut off or not ours costs only time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json

from ...model.errors import BerthError
from .. import durable

FILE = "agreed.sha256"
LENGTH = 32  # bytes of a digest


def digest(rules, wanted, texts):
    """Return the digest of a comparison: of ``wanted`` (plain data) with ``texts``, each a text or None, by ``rules``."""
    lengths = [None if text is None else len(text) for text in texts]
    made = hashlib.sha256(json.dumps([rules, wanted, lengths]).encode("utf-8"))
    for text in texts:
        made.update((text or "").encode("utf-8"))
    return made.digest()


def read(state_dir):
    """Return the digests that are kept, a set; empty where they cannot be read."""
    try:
        data = durable.read_in(state_dir, FILE) or b""
    except (BerthError, OSError):
        return set()
    return {data[at : at + LENGTH] for at in range(0, len(data), LENGTH)}


def keep(state_dir, digests):
    """Keep these alone. Where that is not possible, the next facts take longer."""
    with contextlib.suppress(BerthError, OSError):
        durable.write_in(state_dir, FILE, b"".join(sorted(digests)))
