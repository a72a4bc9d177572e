# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far hosts count: the owners of an instance (epoch), the writes of one owner, the attempts of a move.

Whoever hears such a number may count on from it. A reply may say twice as many as are believed here, so no number that
was believed makes the replies of the next, honest host invalid.
"""

from __future__ import annotations

from typing import Any, Iterable

from . import state_hints
from .errors import BerthError
from .record import is_count

MOST = 1 << 39


class EpochImplausible(BerthError):
    """A host reports more owners of an instance than any instance can have had, or that many writes or attempts. Nothing
    was done: the next host would continue that count until its own replies were invalid."""


def are_plausible(*counts: Any) -> bool:
    return all(is_count(count) and count < MOST for count in counts)


def miscounted(name: str, hosts: Iterable[str]) -> EpochImplausible:
    """The error for what ``hosts`` say of an instance."""
    names = " and ".join(sorted(hosts))
    return EpochImplausible(
        "%s counts more owners, writes or attempts of %s than there can have been" % (names, name),
        hint=state_hints.take_out_miscounting(names),
    )
