# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The passing hosts from best to worst where a weigher has no column: all of them are weighed for every instance.

The filters are still asked only about hosts that have changed, which is where the plain pipeline spends its time.
"""

from __future__ import annotations

from ..weighing import weighed
from .ranking import Ranking


class FullRanking(Ranking):
    """A Ranking that weighs as the plain pipeline does, with any weighers; it does not record why."""

    terms = ()
    records = False

    def __init__(self, *given):
        super().__init__(*given)
        self.left_out = set()  # hosts that a weigher could not weigh: not asked again within the request

    def new_request(self):
        super().new_request()
        self.left_out = set()

    def in_order(self, kind):
        """(-weight, -chosen_at, index) of the passing hosts that every weigher can weigh, best first."""
        indexes = range(len(self.hosts)) if kind.narrow is None else kind.narrow
        passing = [index for index in indexes if index not in self.left_out and kind.ok(index)]
        states = [self.hosts.state(index) for index in passing]
        weights = weighed(self.weighers, kind.spec, states)
        weights = {index: weights[id(state)] for index, state in zip(passing, states) if id(state) in weights}
        self.left_out.update(index for index in passing if index not in weights)
        yield from sorted((-weight, -self.chosen_at.get(index, 0), index) for index, weight in weights.items())
