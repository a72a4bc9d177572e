# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a request lacks so that anybody could reach or enter its guest: told before that is made, since it is seldom meant."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Dict, List, Mapping, Optional

from . import clones, input_hints, volumes
from .errors import shortened
from .guest_settings import GuestSettings, is_true
from .messages import Document

LEAST_BITS = 1024  # of RSA, for sshd


def key_fault(line: str) -> Optional[str]:
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


def lacks(spec: Document, seed: Mapping[str, Any]) -> List[str]:
    """Return what a request with its seed lacks, each as a sentence about the instance, with what to do."""
    faults = {key: key_fault(key) for key in seed.get("ssh_keys") or ()}
    found = [
        "nobody can log in with the key %s...: it is not %s. %s" % (key[:40], fault, input_hints.public_key())
        for key, fault in faults.items()
        if fault
    ]
    agent = is_true(GuestSettings.of(spec).get("qemu_guest_agent", "false"))
    password = "hashed_passwd" in (seed.get("cloud_config") or "")
    good_key = None in faults.values()
    # User data can make an account, and a volume to boot from or the disk of a clone may have one.
    if not (good_key or seed.get("user_data") or password or agent or volumes.boot(spec) or clones.of(spec)):
        found.append("nobody can log in, unless the image has an account. " + input_hints.give_way_in())
    if not spec.get("networks"):
        found.append("no network interface. " + input_hints.give_network())
    return found


def warnings(lacking: Mapping[str, List[str]]) -> List[str]:
    """Return a line for each sentence, with the instances that it is about. ``lacking``: instance -> lacks()."""
    about: Dict[str, List[str]] = {}
    for name, sentences in sorted(lacking.items()):
        for sentence in sentences:
            about.setdefault(sentence, []).append(name)
    return ["%s: %s" % (shortened(names), sentence) for sentence, names in about.items()]
