# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of a volume's record on one host: its states and the legal changes, at rest and in a move.

A volume moves with its instance: the source gives up the volumes before the instance, and the destination takes over
the volumes before the instance. So at most one host owns a volume, and a host that owns an instance but not its volumes
starts nothing.
"""

from __future__ import annotations

from typing import Optional

from . import lifecycle
from .lifecycle import ACTIVE, BUILDING, IN, INCOMING, KEEP, OUT, OWN, State

LET_GO, EXPECTED, OWNED = (OUT, KEEP), (IN, INCOMING), (OWN, ACTIVE)
MOVES = frozenset({(OWNED, LET_GO), ((OWN, BUILDING), LET_GO), (LET_GO, OWNED), (EXPECTED, OWNED)})


def check_change(old: Optional[State], new: Optional[State]) -> None:
    """Raise IllegalChange if the record of a volume in state ``old`` may not become ``new``."""
    if (old, new) not in MOVES:
        lifecycle.check_change(old, new)
