# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a request lacks so that anybody could reach or enter its guest: told before that is made, since it is seldom meant."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

from . import input_hints, public_key, volumes
from .guest_settings import GuestSettings
from .image import is_true
from .messages import Document

MOST_NAMED = 10


def lacks(spec: Document, seed: Mapping[str, Any]) -> List[str]:
    """Return what a request with its seed lacks, each as a sentence about the instance, with what to do."""
    faults = {key: public_key.fault(key) for key in seed.get("ssh_keys") or ()}
    found = [
        "nobody can log in with the key %s...: it is not %s. %s" % (key[:40], fault, input_hints.public_key())
        for key, fault in faults.items()
        if fault
    ]
    agent = is_true(GuestSettings.of(spec).get("qemu_guest_agent", "false"))
    password = "hashed_passwd" in (seed.get("cloud_config") or "")
    good_key = None in faults.values()
    # User data can make an account, and a volume to boot from may have one.
    if not (good_key or seed.get("user_data") or password or agent or volumes.boot(spec)):
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
    return ["%s: %s" % (_named(names), sentence) for sentence, names in about.items()]


def _named(names: List[str]) -> str:
    more = " and %d more" % (len(names) - MOST_NAMED) if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
