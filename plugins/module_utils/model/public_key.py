# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a public SSH key of one line has inside: sshd reads that, and lets nobody in by a key that is cut off or too short."""

from __future__ import annotations

import base64
import binascii
from typing import List, Optional

LEAST_BITS = 1024  # of RSA, for sshd


def fault(line: str) -> Optional[str]:
    """Return what a key of the form TYPE BASE64 [COMMENT] would have to be so that somebody could log in by it, or None."""
    kind, packed = line.split(None, 2)[:2]
    if kind == "ssh-dss":
        return "a key of another type than ssh-dss, which sshd does not take any more"
    try:
        blob = base64.b64decode(packed, validate=True)
        parts = _parts(blob, whole="-cert-" not in kind)
    except (binascii.Error, ValueError):
        return "a whole key: what follows %s is cut off or damaged" % kind
    if parts[0] != kind.encode():
        return "a key of the type that is before it, not %s before another" % kind
    sizes = [len(part) for part in parts]
    if len(sizes) < 2 or kind == "ssh-ed25519" and sizes[1] != 32:
        return "a whole key: what follows %s is cut off or damaged" % kind
    if kind == "ssh-rsa" and (len(sizes) != 3 or int.from_bytes(parts[2], "big").bit_length() < LEAST_BITS):
        return "an RSA key of at least %d bits" % LEAST_BITS
    return None


def _parts(blob: bytes, whole: bool) -> List[bytes]:
    """Return the parts of a key, each with its length before it; of a certificate, which has others too, the first two."""
    parts: List[bytes] = []
    at = 0
    while at < len(blob) and (whole or len(parts) < 2):
        size = int.from_bytes(blob[at : at + 4], "big")
        at += 4 + size
        if at > len(blob) or not size:
            raise ValueError
        parts.append(blob[at - size : at])
    if not parts:
        raise ValueError
    return parts
