# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The best of libvirt's CPU models that guests can have on every host of a fleet.

libvirt's lists have no order of their own, so this one is by generation, the oldest first. Of one generation's models, that
with TSX comes before the one without, then that with IBRS or IBPB, then the higher version.
"""

from __future__ import annotations

import re
from typing import Iterable, List, Optional, Tuple

GENERATIONS = (
    "Conroe", "Penryn", "Opteron_G1", "Opteron_G2", "Opteron_G3", "Nehalem", "Westmere", "SandyBridge", "Opteron_G4",
    "IvyBridge", "Opteron_G5", "Haswell", "Broadwell", "Dhyana", "EPYC", "Skylake-Client", "Skylake-Server",
    "Cascadelake-Server", "EPYC-Rome", "Cooperlake", "Icelake-Client", "Icelake-Server", "EPYC-Milan", "EPYC-Genoa",
    "SapphireRapids", "GraniteRapids", "EPYC-Turin",
)  # fmt: skip


def best_common(lists: Iterable[Iterable[str]]) -> Optional[str]:
    """The newest model that is in each of the lists, or None. A model of an unknown generation is never named."""
    common = set.intersection(*map(set, lists))
    ranked = sorted((rank, name) for rank, name in ((_rank(name), name) for name in common) if rank)
    return ranked[-1][1] if ranked else None


def _rank(name: str) -> Optional[Tuple[int, bool, bool, int]]:
    known: List[str] = [each for each in GENERATIONS if name == each or name.startswith(each + "-")]
    if not known:
        return None
    version = re.search(r"-v([0-9]{1,3})\Z", name)
    guarded = "IBRS" in name or "IBPB" in name
    return GENERATIONS.index(max(known, key=len)), "noTSX" not in name, guarded, int(version.group(1)) if version else 0
