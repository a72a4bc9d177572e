# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instance another one is, or was made as, a clone of: ``clone_of`` in its request, the uuid of that one. Until it is built its
host makes its disks from those, and never from an image."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from .errors import BerthError

KEY = "clone_of"
OPERATION = "clone"


class CloneNotPossible(BerthError):
    """The instance cannot be cloned, or not as asked: its disks do not fit, or are on another host than that asked for. Nothing
    was changed."""


def of(spec: Mapping[str, Any]) -> Optional[str]:
    found: Optional[str] = spec.get(KEY)
    return found
