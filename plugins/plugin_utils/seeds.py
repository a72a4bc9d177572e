# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seed of a decision's random choices. Each decision draws its own: with the same one, controllers that decide at the
same time would all choose the same host. The receipt has it, and berth_seed repeats it."""

from __future__ import annotations

import secrets
from typing import Any, Mapping, Optional

from ..module_utils.model.schema import Whole
from ..module_utils.placement.weighing import MOST_SEED
from .plain import number

SEED = "berth_seed"
_CHECK = Whole(0, MOST_SEED)


def seed(variables: Mapping[str, Any], option: Optional[int] = None, approved: Optional[int] = None) -> int:
    """That of the task's ``option``, of the variable, or of what was approved; else one that is drawn. Raises InvalidInput."""
    given = [value for value in (option, number(variables.get(SEED)), approved) if value is not None]
    return _CHECK.check(given[0], SEED) if given else secrets.randbelow(MOST_SEED + 1)
