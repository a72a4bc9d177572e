# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much each passing host weighs: the sum of multiplier * normalised raw weight over the weighers.

A host that a weigher cannot weigh is left out, with a verdict. Source: HostManager.get_weighed_hosts and
BaseWeightHandler.get_weighed_objects of Nova.
"""

from __future__ import annotations

import math

from .base import PASS, RAISED, Weigher, normalize
from .filtering import raised


def weighed(weighers, spec, hosts, record=None):
    """Return {id(HostState): weight} of the hosts that every weigher can weigh; ``record`` collects the numbers."""
    columns = []
    if len(hosts) > 1:
        hosts, columns = _columns(weighers, spec, hosts, record)
    if len(hosts) <= 1:
        columns = []
    sums = [0.0] * len(hosts)
    keys = [host_state.key for host_state in hosts] if record is not None else ()
    for weigher, raw, multipliers in columns:
        normalised = normalize(raw, weigher.minval, weigher.maxval)
        sums = [total + multiplier * part for total, multiplier, part in zip(sums, multipliers, normalised)]
        if record is not None:
            record["weighers"].append(
                {
                    "weigher": weigher.name,
                    "raw": dict(zip(keys, raw)),
                    "normalised": dict(zip(keys, normalised)),
                    "multiplier": dict(zip(keys, multipliers)),
                }
            )
    if record is not None:
        record["weights"] = dict(zip(keys, sums))
    return {id(host_state): total for host_state, total in zip(hosts, sums)}


def _columns(weighers, spec, hosts, record):
    """(hosts that every weigher can weigh, [(weigher, their raw weights, their multipliers)])."""
    try:
        return hosts, [_column(weigher, hosts, spec) for weigher in weighers]
    except RAISED:
        columns = []
        for weigher in weighers:
            verdicts = _cannot_weigh(weigher, hosts, spec)
            if verdicts and record is not None:
                by_host = {host_state.key: verdicts.get(id(host_state), PASS) for host_state in hosts}
                record["filters"].append({"filter": weigher.name, "skipped": False, "verdicts": by_host})
            hosts = [host_state for host_state in hosts if id(host_state) not in verdicts]
        if len(hosts) > 1:
            columns = [_column(weigher, hosts, spec) for weigher in weighers]
        return hosts, columns


def _cannot_weigh(weigher, hosts, spec):
    """{id(HostState): Verdict} of the hosts on which a weigher fails, or of all where it only fails on all."""
    verdicts = {}
    for host_state in hosts:
        try:
            _column(weigher, [host_state], spec)
        except RAISED as error:
            verdicts[id(host_state)] = raised(weigher, host_state, error)
    good = [host_state for host_state in hosts if id(host_state) not in verdicts]
    try:
        _column(weigher, good, spec)
    except RAISED as error:
        verdicts.update((id(host_state), raised(weigher, host_state, error)) for host_state in good)
    return verdicts


def _column(weigher, hosts, spec):
    """Return (weigher, raw weights, multipliers); ValueError or TypeError if a host has no finite number."""
    raw = weigher.weigh(hosts, spec)
    multipliers = _multipliers(weigher, hosts)
    for what, numbers in (("weights", raw), ("multipliers", multipliers)):
        if len(numbers) != len(hosts):
            raise ValueError("gave %d %s for %d hosts" % (len(numbers), what, len(hosts)))
        # One sum finds text, None, infinities, NaN, and whole numbers that are no float.
        if not -math.inf < math.fsum(numbers) < math.inf:
            raise ValueError("gave %s that are not finite: %s" % (what, numbers[:3]))
    return weigher, raw, multipliers


def _multipliers(weigher, hosts):
    """Return the weigher's multiplier on each host, asked once if no host is in an aggregate that may override it."""
    if type(weigher).multiplier is Weigher.multiplier and not any(host_state.aggregates for host_state in hosts):
        return [weigher.multiplier(host_state) for host_state in hosts[:1]] * len(hosts)
    return [weigher.multiplier(host_state) for host_state in hosts]


# Which host comes first among hosts of equal weight: the one chosen last in this request, then the earlier one in the
# input.
#
# The options may draw lots instead: shuffle_best_same_weighed_hosts among the best, host_subset_size among the first
# ones, the driver chance among all; the driver fake keeps the order. fast/ranking.py keeps the same order.
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
