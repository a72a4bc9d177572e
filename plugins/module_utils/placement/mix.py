# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mix of typical requests that dense packing keeps room for: from an option, or counted from instances.

A request's amounts are vCPUs, MiB, GiB, then one number for each further resource that the mix names: a resource class
of ``resources:CLASS``, or ``pci:ALIAS`` for devices of ``pci_passthrough:alias``.
"""

from __future__ import annotations

import re
from collections import Counter

from ..model.errors import InvalidInput
from ..model.flavor import Flavor
from . import numa
from .packing import Size

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
