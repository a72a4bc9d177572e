# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch against the quota: as many as were asked for, at least the minimum, or none (A02, A04, S07)."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import quotas
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import Fleet


def batch(count, existing=0):
    flavor = {"name": "f", "vcpus": 1, "memory_mb": 1}
    instances = {"vm-%d" % n: {"name": "vm-%d" % n, "project": "p", "spec": {"flavor": flavor}} for n in range(count)}
    for instance in list(instances.values())[:existing]:
        instance["state"] = "existing"
    return instances


@pytest.mark.parametrize(
    "count, least, cores, existing, left, failed",
    [
        (3, 3, 3, 0, 3, 0),
        (3, 3, 2, 0, 3, 3),
        (3, 1, 2, 0, 2, 0),
        (3, 2, 1, 0, 3, 3),
        (4, 3, 2, 1, 3, 0),
        (4, 4, 2, 1, 4, 3),
    ],
    ids=["all fit", "no minimum: none", "reduced", "below the minimum: none", "what exists counts", "and stays"],
)
def test_a_batch_is_reduced_to_the_quota_but_not_below_its_minimum(count, least, cores, existing, left, failed):
    instances = batch(count, existing)
    quotas.before_placement(instances, Fleet({}, {}), {"*": {"cores": cores}})
    said = quotas.hold_to_count(instances, least)
    assert (len(instances), sum(one.get("state") == "failed" for one in instances.values())) == (left, failed)
    assert (said or "").startswith("reduced from %d to %d because " % (count, left) if left < count else "")
    assert bool(said) == (left < count)
