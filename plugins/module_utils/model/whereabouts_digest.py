# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Digests of which host owns which instance, so that a host is not sent again what it remembers.

Instances are divided by the first digits of their uuids, and each part has a digest: a change in the fleet alters only
a few. A digest covers all that a host would be sent about its part, including the names of the owners.
"""

from __future__ import annotations

import hashlib
from typing import Dict, List, Mapping, Tuple

PLANS = "plans"  # in place of a part: the host also remembers plans
PART = 2  # digits

Owner = Tuple[str, int, int]  # its host uuid, and the generation with which it was the owner


def part_of(uuid: str) -> str:
    return uuid[:PART]


def digests(known: Mapping[str, Owner], names: Mapping[str, str]) -> Dict[str, str]:
    """Return {part: digest}. ``known``: instance uuid -> its owner; ``names``: host uuid -> inventory name."""
    parts: Dict[str, List[str]] = {}
    for uuid, (host_uuid, epoch, n) in known.items():
        line = "%s %s %d %d %s" % (uuid, host_uuid, epoch, n, names.get(host_uuid, host_uuid))
        parts.setdefault(part_of(uuid), []).append(line)
    return {part: hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:32] for part, lines in parts.items()}
