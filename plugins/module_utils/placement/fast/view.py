# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The weights of all hosts under one normalisation, best first, kept up to date as hosts change."""

from __future__ import annotations

import heapq
from itertools import repeat

# How many of the best hosts are read before all are put in order.
FIRST = 64


class View:
    """Weights of all hosts under one normalisation: a heap of (-weight, -chosen_at, index), and each host's valid entry."""

    def __init__(self, weights):
        self.weights = weights
        self.current = {}
        self.aside = []
        self.full = False
        self.seen = 0  # how many changes of hosts it has followed
        number = len(weights)
        if number > FIRST:
            best = heapq.nlargest(FIRST, zip(weights, repeat(0), range(0, -number, -1)))
            self.heap = [(-weight, 0, -negative) for weight, _zero, negative in best]
            self.floor = self.heap[-1]
        else:
            self.floor = None
            self.heap = [(-weight, 0, index) for index, weight in enumerate(weights)]
            self.full = True
        heapq.heapify(self.heap)
        for entry in self.heap:
            self.current[entry[2]] = entry

    def top(self):
        """Return the best valid entry, or None."""
        heap, current = self.heap, self.current
        while True:
            while heap and current.get(heap[0][2]) is not heap[0]:
                heapq.heappop(heap)
            if self.full or (heap and heap[0] <= self.floor):
                return heap[0] if heap else None
            self.fill()
            heap, current = self.heap, self.current

    def fill(self):
        """Put every host in the heap, changed ones with their current entry, except those set aside."""
        self.full = True
        current = self.current
        entries = [current.get(index) or (-weight, 0, index) for index, weight in enumerate(self.weights)]
        self.current = {entry[2]: entry for entry in entries}
        aside = {entry[2] for entry in self.aside}
        self.heap = [entry for entry in entries if entry[2] not in aside] if aside else entries
        heapq.heapify(self.heap)

    def set_aside(self):
        """Take the top entry away until restore()."""
        self.aside.append(heapq.heappop(self.heap))

    def restore(self):
        for entry in self.aside:
            heapq.heappush(self.heap, entry)
        self.aside = []

    def update(self, index, weight, chosen_at):
        self.weights[index] = weight
        entry = (-weight, -chosen_at, index)
        self.current[index] = entry
        heapq.heappush(self.heap, entry)
