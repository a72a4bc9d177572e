# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ratio of an aggregate beside the host's own: it takes the host's place in the filter, and the capacity stays."""

from __future__ import annotations

import pytest
from scheduler_case import FLAVOR, host, request

from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations

RATIOS = {"cpu": "AggregateCoreFilter", "ram": "AggregateRamFilter", "disk": "AggregateDiskFilter"}
# A host on which the flavor fits at its own ratio, 2, up to twice what it has.
HOST = {"vcpus": 2, "memory_mb": 2048, "local_gb": 10, "reserved_host_memory_mb": 0}
OWN = {"%s_allocation_ratio" % kind: 2.0 for kind in RATIOS}
USED = {"cpu": ("vcpus_used", 2), "ram": ("memory_mb_used", 2048), "disk": ("local_gb_used", 10)}


def fits(kind, ratio, used, fast):
    """Whether the host takes the flavor, with so much in use of what an aggregate has the ``ratio`` for."""
    told = host("a", **HOST, **OWN, **{USED[kind][0]: used})
    aggregates = [{"name": "g", "hosts": ["a"], "metadata": {"%s_allocation_ratio" % kind: ratio}}] if ratio else []
    options = {"enabled_filters": [RATIOS[kind]]}
    found = select_destinations([told], [request(flavor=FLAVOR)], options, aggregates, fast=fast)
    return bool(found.requests[0].hosts)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("kind", RATIOS)
@pytest.mark.parametrize(
    "ratio, full, over",
    [(None, True, False), ("1.5", False, False), ("2.0", True, False), ("3.0", True, False), ("much", True, False)],
)
def test_the_ratio_of_an_aggregate_lowers_what_a_host_takes_and_never_raises_it(kind, ratio, full, over, fast):
    """``full``: once what the host has is in use; ``over``: once one more than that is."""
    used = USED[kind][1]
    assert (fits(kind, ratio, used, fast), fits(kind, ratio, used + 1, fast)) == (full, over)
