# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seal on the documents of hosts in the registry. A controller has checked what it seals, so the next one need not, which is
most of what reading a large fleet takes. It is made with the key of the authority, which no member of the registry has: a
member that lies can only leave the seal out, or give an older document of the same host, and then all is checked again.

Of another version of the collection, which may check otherwise, no seal counts.
"""

from __future__ import annotations

import hmac
from typing import Tuple

from ..module_utils.conductor.registry import keys
from ..module_utils.model.collection_version import COLLECTION_VERSION

DIGEST = "sha256"
LENGTH = 32  # bytes


class Seal:
    """``secret``: what all controllers have and nobody else."""

    def __init__(self, secret: bytes) -> None:
        self._key = hmac.digest(secret, b"berth facts %s" % COLLECTION_VERSION.encode(), DIGEST)

    def sealed(self, key: str, value: bytes) -> bytes:
        """The value as it is kept."""
        return self._of(key, value) + value if key.startswith(keys.FACTS) else value

    def opened(self, key: str, kept: bytes) -> Tuple[bytes, bool]:
        """The value, and whether the seal is right."""
        if not key.startswith(keys.FACTS):
            return kept, False
        value = kept[LENGTH:]
        return value, hmac.compare_digest(kept[:LENGTH], self._of(key, value))

    def _of(self, key: str, value: bytes) -> bytes:
        return hmac.digest(self._key, b"%s %s" % (key.encode(), value), DIGEST)
