# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance may overcommit a host against others, never against itself: it must fit in the host's total."""

from __future__ import annotations

from .base import PASS, fail
from .text import number


def verdict(asked, total, used, ratio, unit):
    """Return the verdict of CoreFilter, RamFilter and DiskFilter on an amount; ``unit`` is for people."""
    limit = total * ratio
    numbers = {"asked": asked, "total": total, "used": used, "ratio": ratio, "limit": limit}
    if asked > total:
        return fail("needs %d %s, has %d in all" % (asked, unit, total), **numbers)
    if limit - used < asked:
        values = (asked, unit, number(limit - used), total, number(ratio))
        return fail("needs %d %s, %s free of %d x %s" % values, **numbers)
    return PASS
