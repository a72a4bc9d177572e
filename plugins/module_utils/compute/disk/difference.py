# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a guest's disks differ from its record, see disk_chain.py."""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple

BESIDE, MISSING, RESTORED = "beside", "missing", "restored"  # the other kinds are in disk_chain.py
GONE = "%s is missing (it was made with the instance)"


@dataclasses.dataclass(frozen=True)
class Difference:
    """One difference from the record: ``text`` describes it, ``command`` undoes it, ``files`` are not in the record."""

    kind: str
    text: str
    command: Optional[str]
    files: Tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Used:
    """A disk of a definition; ``live`` if it is the definition of the running guest, ``drive`` if its medium can be taken
    out of it."""

    target: str
    path: str
    format: str
    live: bool
    drive: bool
