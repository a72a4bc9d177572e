# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The PCI devices that one host lacks: how many more of which alias, and near which NUMA cells."""

from __future__ import annotations

from .. import pci
from .trial import COST_OF_SERVICE


def fix_devices(state, spec, cells=None):
    """[(text, cost, step)] for the first alias that the host cannot serve, or None.

    ``cells``: the cells of the host near which the devices must be, if the NUMA policy asks for it.
    """
    pools = pci.copy_pools(state.pci_stats)
    for request in spec.pci_requests:
        if pci.take(pools, [request], cells, state.numa_topology) is None:
            return [_more(state, request, pools, cells)]
    return None


def _more(state, request, pools, cells):
    free = sum(pool["count"] for pool in pci.matching(pools, request))
    node = cells[0].id if cells else None
    device = {**request["spec"][0], "numa_node": node}
    short = request["count"] - (0 if cells else free)
    for more in range(max(1, short), request["count"] + 1):
        if pci.take([*pci.copy_pools(pools), {**device, "count": more}], [request], cells, state.numa_topology):
            short = more
            break

    def step(state):
        state.pci_stats = [*pci.copy_pools(state.pci_stats), {**device, "count": short}]

    near = " near NUMA cell %d (%s)" % (node, request["numa_policy"]) if cells else ""
    text = "%d more free devices of %s%s (%d free, %d needed)" % (
        short,
        request["alias_name"],
        near,
        free,
        request["count"],
    )
    return text, COST_OF_SERVICE * short / request["count"], step
