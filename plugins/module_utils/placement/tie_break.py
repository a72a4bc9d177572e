# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which host comes first among hosts of equal weight: the one chosen last in this request, then the earlier one in the input.

The options may draw lots instead: shuffle_best_same_weighed_hosts among the best, host_subset_size among the first ones,
the driver chance among all; the driver fake keeps the order.
fast/ranking.py keeps the same order.
"""

from __future__ import annotations

MOST_SEED = 10**9 - 1  # what a person can read out and type


def best_first(hosts, weights, chosen_at, position):
    """Return the hosts that have a weight, best first. ``weights``, ``chosen_at`` (0: not in this request) and
    ``position`` by id(host state)."""
    return sorted(
        (host_state for host_state in hosts if id(host_state) in weights),
        key=lambda host_state: (
            -weights[id(host_state)],
            -chosen_at.get(id(host_state), 0),
            position[id(host_state)],
        ),
    )


def draws(options):
    """Whether lots decide which host comes first."""
    return (
        options["driver"] == "chance" or options["shuffle_best_same_weighed_hosts"] or options["host_subset_size"] > 1
    )


def drawn(order, weights, options, rng):
    """Return (the order with its front drawn by lot if the options ask for it, how many hosts could have come first)."""
    if options["driver"] == "fake":
        return order, 1
    if options["driver"] == "chance":
        return rng.sample(order, len(order)), len(order)
    best = []
    if options["shuffle_best_same_weighed_hosts"] and order:
        best = [host_state for host_state in order if weights[id(host_state)] == weights[id(order[0])]]
        if len(best) > 1:
            rest = order[len(best) :]
            rng.shuffle(best)
            order = best + rest
    size = min(options["host_subset_size"], len(order))
    if size > 1:
        first = order.pop(rng.randrange(size))
        order.insert(0, first)
    return order, max(size, len(best))
