# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arithmetic of dense packing: what placing a request on a host costs the requests that will come later.

Sizes are tuples with one number per dimension: vCPUs, memory, then disk and further resources such as devices. Every
other tuple has the same dimensions in the same order and units. NUMA cells have vCPUs and memory only.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple, Tuple

from ..model.errors import InvalidInput
from ..model.request_spec import Flavor
from . import numa

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
    most. If a request is not pinned, half of the number that would fit in pieces is added. The cost of a placement has
    four parts:

    - the room lost;
    - the growth of the imbalance: free vCPUs and free memory drifting apart, in mean requests for each NUMA cell of a
      pinned request, else in mean requests and in shares of the host. The latter counts less if vCPUs or memory will be
      left over in any case, by what all hosts have (``fleet``: vCPUs and memory; without it they count as balanced);
    - what stays free (best fit). It decides between equals, and counts more the likelier sizes are that the mix does
      not have (``unseen``, 0 to 1): the first two, which know only the mix, then count less by as much;
    - for a request that does not use a further resource (a device): the share it takes of the host's free vCPUs or
      memory, times the share of the further resource that is free there and may be stranded.
    """

    exponent, tie = 3.0, 0.005

    def __init__(self, mix, unseen=0.0, fleet=None):
        self.unseen = unseen
        total = sum(size.share for size in mix)
        dimensions = range(len(mix[0].amounts))
        self.mean = tuple(max(sum(size.share * size.amounts[at] for size in mix) / total, _HAIR) for at in dimensions)
        self.further = [at for at in dimensions if at >= FURTHER and any(size.amounts[at] for size in mix)]
        worth = [size.share * sum(a / m for a, m in zip(size.amounts, self.mean)) ** self.exponent for size in mix]
        self.parts = [_Part(size, weight / sum(worth)) for size, weight in zip(mix, worth)]
        holds = [max(total, _HAIR) / mean for total, mean in zip(fleet or self.mean, self.mean)]
        self.balance = (min(holds[:2]) / max(holds[:2])) ** 4
        self._room, self._cost, self._known_units = {}, {}, {}

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
            units = self._units(host.capacity)
            drift = self._imbalance(units, after, cells, span) - self._imbalance(units, host.free, host.cells, span)
            left = sum([(a / max(c, _HAIR)) ** 2 for a, c in zip(after, host.capacity)])
            cost_in_room = (
                (1 - self.unseen) * (lost + drift) + (self.unseen + self.tie) * left + self._stranded(host, amounts)
            )
            _remember(self._cost, key, cost_in_room)
        return cost_in_room

    def _units(self, capacity):
        """Return what one vCPU and one unit of memory count in the imbalance of a host.

        By the mean request, and by the host, so that no host runs out of one while it has much of the other.
        """
        units = self._known_units.get(capacity)
        if units is None:
            holds = max(min([capacity[at] / self.mean[at] for at in (0, 1, *self.further)]), 0)
            units = tuple([self.balance * (1 / self.mean[at] + holds / max(capacity[at], _HAIR)) for at in (0, 1)])
            _remember(self._known_units, capacity, units)
        return units

    def _imbalance(self, units, free, cells, span):
        if not (span and cells):
            return abs(free[0] * units[0] - free[1] * units[1])
        return sum([abs(cell[0] / self.mean[0] - cell[1] / self.mean[1]) for cell in cells])

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
        """Return how many fit; of a size that is not pinned, half of those that fit in pieces are added."""
        number = _fitting(free, self.asked)
        if not self.cells or not cells:
            return int(number) + number / 2
        if number < 1:
            return 0
        return min(int(number), most_spanning([int(_fitting(cell, self.asked_of_cell)) for cell in cells], self.cells))


def _fitting(free, asked):
    """Return how many requests fit if they may be cut into pieces."""
    return max(min([(free[at] + _HAIR) / amount for at, amount in asked], default=0), 0)


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


# The mix of typical requests that dense packing keeps room for: from an option, or counted from instances.
#
# A request's amounts are vCPUs, MiB, GiB, then one number for each further resource that the mix names: a resource
# class of ``resources:CLASS``, or ``pci:ALIAS`` for devices of ``pci_passthrough:alias``.
FIELDS = ("vcpus", "memory_mb", "disk_gb", "numa_nodes", "share")
MIX_FIELDS = (*FIELDS, "resources")
COUNTED_ALREADY = ("VCPU", "PCPU", "MEMORY_MB", "DISK_GB")
_RESOURCE = re.compile(r"resources[a-zA-Z0-9_-]{0,64}:([A-Z0-9_]{1,255})$")
_AMOUNT = re.compile(r"[0-9]{1,15}")


class Mix:
    """Typical requests, ready for Packing.

    ``names`` are the further resources, ``sizes`` the Sizes, and ``unseen`` is how likely the next request has a size
    that is not among them (0 to 1).
    """

    def __init__(self, kinds, unseen):
        """``kinds``: [(amounts (vCPUs, MiB, GiB), {further resource: amount}, NUMA cells, share)]."""
        self.names = tuple(sorted({name for _amounts, further, _cells, _share in kinds for name in further}))
        self.sizes = [
            Size((*amounts, *(further.get(name, 0) for name in self.names)), cells, share)
            for amounts, further, cells, share in kinds
        ]
        self.unseen = unseen


def read_mix(documents):
    """Return the Mix of the option, None if it is empty; raise InvalidInput for an item that is not valid."""
    kinds = [_read_item(item, "berth_placement.headroom_flavor_mix[%d]" % at) for at, item in enumerate(documents)]
    shares = [share for _amounts, _further, _cells, share in kinds]
    # Whole shares that differ are counts; others are expectations and say nothing about sizes that are missing.
    counts = len(set(shares)) > 1 and all(share == int(share) for share in shares)
    return Mix(kinds, shares.count(1) / sum(shares) if counts else 0.0) if kinds else None


def _read_item(item, path):
    if not isinstance(item, dict) or not set(item) <= set(MIX_FIELDS):
        raise InvalidInput(path, item, "an object with some of " + ", ".join(MIX_FIELDS))
    further = item.get("resources") or {}
    if not isinstance(further, dict):
        raise InvalidInput(path + ".resources", further, "an object of resource classes or pci:ALIAS and amounts")
    numbers = [item.get(name, 1 if name == "share" else 0) for name in FIELDS]
    for name, number in [*zip(FIELDS, numbers), *(("resources.%s" % key, further[key]) for key in further)]:
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number < 2**53:
            raise InvalidInput("%s.%s" % (path, name), number, "a number that is not negative")
    if not numbers[4] or not (numbers[0] or numbers[1]):
        raise InvalidInput(path, item, "vcpus or memory_mb and share above 0")
    return tuple(numbers[:3]), {str(key): further[key] for key in further}, int(numbers[3]), numbers[4]


def counted_mix(running, asked):
    """Return the Mix of two tallies {(amounts, extra specs): number}: the running instances, and this run's requests.

    The requests are known to come. A running instance that is the only one of its size stands for a size that was not
    seen yet (the Good-Turing estimate).
    """
    total = running + asked
    alone = sum(1 for kind, number in running.items() if number == 1 and not asked[kind])
    kinds = [
        (amounts, further_resources(dict(extra_specs)), _pinned_nodes(amounts, dict(extra_specs)), number)
        for (amounts, extra_specs), number in sorted(total.items())
    ]
    return Mix(kinds, alone / sum(total.values()))


def tally(host_states):
    """{(amounts, extra specs): number} of the instances on the hosts."""
    seen = Counter()
    for host_state in host_states:
        for instance in host_state.instances.values():
            flavor = instance.get("flavor")
            extra_specs = flavor.get("extra_specs") if isinstance(flavor, dict) else None
            amounts = (instance.get("vcpus") or 0, instance.get("memory_mb") or 0, instance.get("disk_gb") or 0)
            if amounts[0] or amounts[1]:
                seen[amounts, tuple(sorted(extra_specs.items())) if extra_specs else ()] += 1
    return seen


def further_resources(extra_specs):
    """Return {further resource: amount} that a flavor's extra specs ask for; unreadable values count as nothing."""
    found = Counter()
    for key, value in extra_specs.items():
        match = _RESOURCE.match(key)
        if match and match.group(1) not in COUNTED_ALREADY and _AMOUNT.fullmatch(str(value)):
            found[match.group(1)] += int(value)
    for part in str(extra_specs.get("pci_passthrough:alias") or "").split(","):
        alias, _colon, number = part.partition(":")
        if _AMOUNT.fullmatch(number.strip()):
            found["pci:" + alias.strip()] += int(number)
    return {name: amount for name, amount in found.items() if amount}


def _pinned_nodes(amounts, extra_specs):
    """Return how many NUMA cells an instance of this size asks for; 0 if none, or if its extra specs are invalid."""
    if not extra_specs:
        return 0
    try:
        flavor = Flavor({"vcpus": amounts[0], "memory_mb": amounts[1], "extra_specs": extra_specs})
        topology = numa.constraints(flavor, {})
    except InvalidInput:
        return 0
    return len(topology.cells) if topology else 0
