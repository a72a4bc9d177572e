# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arithmetic of dense packing: what placing a request on a host costs the requests that will come later.

Sizes are tuples with one number per dimension: vCPUs, memory, then disk and further resources such as devices. Every
other tuple has the same dimensions in the same order and units. NUMA cells have vCPUs and memory only.
"""

from __future__ import annotations

from typing import NamedTuple, Tuple

# Guards a floor against floats that are a hair below the whole number they stand for.
_HAIR = 1e-6
_LARGEST_CACHE = 500000
# The first dimension of which a request may ask for nothing: 0 and 1 are vCPUs and memory.
FURTHER = 2


class Size(NamedTuple):
    """A typical request: its ``amounts``, the NUMA ``cells`` it is pinned to (0 = not pinned) and its ``share``."""

    amounts: Tuple[float, ...]
    cells: int = 0
    share: float = 1.0


class HostCapacity(NamedTuple):
    """A host: what is ``free``, its total ``capacity``, and what is free in each NUMA cell, for pinned requests."""

    free: Tuple[float, ...]
    capacity: Tuple[float, ...]
    cells: Tuple[Tuple[float, ...], ...] = ()


class Packing:
    """Scores a placement by the room it takes from a mix of typical requests.

    The room of a host is the number of typical requests of each size that still fit it, weighted by the size's share
    and by the cube of its size in mean requests, so that room for the large ones, which is the first to vanish, counts
    most. The cost of a placement has four parts:

    - the room lost;
    - the growth of the imbalance: free vCPUs and free memory, both in mean requests, drifting apart (of each NUMA cell
      for a pinned request, else of the host);
    - what stays free (best fit). It decides between equals, and counts more the likelier sizes are that the mix does
      not have (``unseen``, 0 to 1): the first two, which know only the mix, then count less by as much;
    - for a request that does not use a further resource (a device): the share it takes of the host's free vCPUs or
      memory, times the share of the further resource that is free there and may be stranded.
    """

    exponent, balance, tie = 3.0, 1.0, 0.005

    def __init__(self, mix, unseen=0.0):
        self.unseen = unseen
        total = sum(size.share for size in mix)
        dimensions = range(len(mix[0].amounts))
        self.mean = tuple(max(sum(size.share * size.amounts[at] for size in mix) / total, _HAIR) for at in dimensions)
        self.further = [at for at in dimensions if at >= FURTHER and any(size.amounts[at] for size in mix)]
        worth = [size.share * sum(a / m for a, m in zip(size.amounts, self.mean)) ** self.exponent for size in mix]
        self.parts = [_Part(size, weight / sum(worth)) for size, weight in zip(mix, worth)]
        self._room = {}
        self._cost = {}

    def room(self, free, cells=()):
        """Return how many of the typical requests fit, weighted."""
        number = self._room.get((free, cells))
        if number is None:
            number = sum([part.worth * part.fits(free, cells) for part in self.parts])
            _remember(self._room, (free, cells), number)
        return number

    def cost(self, host, amounts, span=0):
        """Return the cost (less is better) of ``amounts`` on a HostCapacity, pinned to ``span`` cells (0: unpinned)."""
        key = (host, amounts, span)
        cost_in_room = self._cost.get(key)
        if cost_in_room is None:
            after = tuple([f - a for f, a in zip(host.free, amounts)])
            cells = take_cells(host.cells, amounts, span) if span else host.cells
            lost = self.room(host.free, host.cells) - self.room(after, cells)
            drift = self._imbalance(after, cells, span) - self._imbalance(host.free, host.cells, span)
            left = sum([(a / max(c, _HAIR)) ** 2 for a, c in zip(after, host.capacity)])
            cost_in_room = (
                (1 - self.unseen) * (lost + self.balance * drift)
                + (self.unseen + self.tie) * left
                + self._stranded(host, amounts)
            )
            _remember(self._cost, key, cost_in_room)
        return cost_in_room

    def _imbalance(self, free, cells, span):
        parts = cells if span and cells else (free,)
        return sum([abs(part[0] / self.mean[0] - part[1] / self.mean[1]) for part in parts])

    def _stranded(self, host, amounts):
        """Return what a request without devices costs the host's further resources that are still free."""
        taken = max([a / max(f, _HAIR) for a, f in zip(amounts[:2], host.free)])
        unused = [host.free[at] / max(host.capacity[at], _HAIR) for at in self.further if not amounts[at]]
        return taken * sum([max(share, 0) for share in unused])


class _Part:
    """A size of the mix, ready for counting."""

    __slots__ = ("asked", "asked_of_cell", "cells", "worth")

    def __init__(self, size, worth):
        self.asked = [(at, amount) for at, amount in enumerate(size.amounts) if amount > 0]
        self.asked_of_cell = [(at, amount / max(size.cells, 1)) for at, amount in self.asked if at < 2]
        self.cells, self.worth = size.cells, worth

    def fits(self, free, cells):
        count = _count(free, self.asked)
        if not self.cells or not cells or not count:
            return count
        return min(count, most_spanning([_count(cell, self.asked_of_cell) for cell in cells], self.cells))


def _count(free, asked):
    return min([max(int((free[at] + _HAIR) // amount), 0) for at, amount in asked], default=0)


def most_spanning(counts, span):
    """Return how many requests fit that take a place in ``span`` different cells each; ``counts``: places per cell."""
    if span == 1:
        return sum(counts)
    if span == len(counts):
        return min(counts)
    most = 0
    while sum(min(count, most + 1) for count in counts) >= span * (most + 1):
        most += 1
    return most


def take_cells(cells, amounts, span):
    """Return the cells' free capacity after a pinned request took the ``span`` cells in which it leaves least."""
    if not cells:
        return cells
    ask = [amount / span for amount in amounts[:2]]
    mean = [max(sum(cell[at] for cell in cells) / len(cells), _HAIR) for at in (0, 1)]

    def left_over(at):
        left = [f - a for f, a in zip(cells[at], ask)]
        return (min(left) < -_HAIR, sum([(amount / m) ** 2 for amount, m in zip(left, mean)]))

    chosen = set(sorted(range(len(cells)), key=left_over)[:span])
    return tuple([tuple([f - a for f, a in zip(cell, ask)]) if at in chosen else cell for at, cell in enumerate(cells)])


def _remember(cache, key, value):
    if len(cache) >= _LARGEST_CACHE:
        cache.clear()
    cache[key] = value
