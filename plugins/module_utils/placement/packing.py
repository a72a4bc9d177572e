# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arithmetic of dense packing: what placing a request on a host costs the requests that will come later.

Sizes are tuples with one number per dimension, the first two being vCPUs and memory; every other tuple has the same
dimensions in the same order and units. A host is its free capacity, and the free capacity of its NUMA cells where
requests are pinned to cells.
"""

from __future__ import annotations

# Guards a floor against floats that are a hair below the whole number they stand for.
_HAIR = 1e-6
_LARGEST_CACHE = 500000


class Size:
    """A typical request: its ``amounts``, the NUMA ``cells`` it is pinned to (0 = not pinned) and its ``share``."""

    __slots__ = ("amounts", "cells", "share")

    def __init__(self, amounts, cells=0, share=1.0):
        self.amounts, self.cells, self.share = tuple(amounts), cells, share


class Packing:
    """Scores a placement by the room it takes from a mix of typical requests.

    The room of a host is the number of typical requests of each size that still fit it, weighted by the size's share
    and by the cube of its size, so that room for the large ones, which is the first to vanish, counts most. The cost of
    a placement is the room lost, plus the growth of the host's imbalance (free vCPUs and free memory, both measured in
    mean requests, drifting apart), plus a little for what stays free (best fit between equals).

    ``scale`` is the mean capacity of a host, which makes the dimensions comparable.
    """

    exponent, balance, tie = 3.0, 1.0, 0.005

    def __init__(self, mix, scale):
        self.scale = tuple(max(one, _HAIR) for one in scale)
        total = sum(size.share for size in mix) or 1.0
        worth = [
            size.share / total * sum(a / s for a, s in zip(size.amounts, self.scale)) ** self.exponent for size in mix
        ]
        whole = sum(worth) or 1.0
        self.mix = [_Part(size, one / whole) for size, one in zip(mix, worth)]
        self.mean = tuple(
            max(sum(size.share / total * size.amounts[at] for size in mix), _HAIR) for at in range(len(self.scale))
        )
        self._room = {}
        self._cost = {}

    def room(self, free, cells=()):
        """How many of the typical requests fit, weighted."""
        found = self._room.get((free, cells))
        if found is None:
            found = sum(part.worth * part.fits(free, cells) for part in self.mix)
            _remember(self._room, (free, cells), found)
        return found

    def cost(self, free, cells, amounts, span=0):
        """The cost of placing ``amounts``, pinned to ``span`` cells (0 = not pinned), on a host; less is better."""
        key = (free, cells, amounts, span)
        found = self._cost.get(key)
        if found is None:
            after = tuple([f - a for f, a in zip(free, amounts)])
            left = take_cells(cells, amounts, span) if cells and span else cells
            found = (
                self.room(free, cells)
                - self.room(after, left)
                + self.tie * sum([(a / s) ** 2 for a, s in zip(after, self.scale)])
                + self.balance * (self._imbalance(after) - self._imbalance(free))
            )
            _remember(self._cost, key, found)
        return found

    def _imbalance(self, free):
        return abs(free[0] / self.mean[0] - free[1] / self.mean[1])


class _Part:
    """A size of the mix, ready for counting."""

    __slots__ = ("asked", "cells", "worth")

    def __init__(self, size, worth):
        split = max(size.cells, 1)
        self.asked = [(at, amount / split) for at, amount in enumerate(size.amounts) if amount > 0]
        self.cells, self.worth = size.cells, worth

    def fits(self, free, cells):
        if not self.cells or not cells:
            split = max(self.cells, 1)
            return min([max(int((free[at] + _HAIR) // (ask * split)), 0) for at, ask in self.asked], default=0)
        counts = [min([max(int((cell[at] + _HAIR) // ask), 0) for at, ask in self.asked], default=0) for cell in cells]
        return most_spanning(counts, self.cells)


def most_spanning(counts, span):
    """How many requests fit that take a place in ``span`` different cells each; ``counts`` are the places per cell."""
    if span == 1:
        return sum(counts)
    if span == len(counts):
        return min(counts)
    most = 0
    while sum(min(count, most + 1) for count in counts) >= span * (most + 1):
        most += 1
    return most


def take_cells(cells, amounts, span):
    """The cells' free capacity after a pinned request took the ``span`` cells it fits with least left over."""
    ask = [amount / span for amount in amounts]
    mean = [max(sum(cell[at] for cell in cells) / len(cells), _HAIR) for at in range(len(ask))]

    def left_over(at):
        left = [f - a for f, a in zip(cells[at], ask)]
        return (min(left) < -_HAIR, sum((one / m) ** 2 for one, m in zip(left, mean)))

    chosen = set(sorted(range(len(cells)), key=left_over)[:span])
    return tuple(tuple([f - a for f, a in zip(cell, ask)]) if at in chosen else cell for at, cell in enumerate(cells))


def _remember(cache, key, value):
    if len(cache) >= _LARGEST_CACHE:
        cache.clear()
    cache[key] = value
