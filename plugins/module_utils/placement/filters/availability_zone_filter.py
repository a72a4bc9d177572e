# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""AvailabilityZoneFilter."""

from __future__ import annotations

from ...model.aggregate import merged_metadata
from ...model.catalog import DEFAULT_ZONE
from ..base import PASS, Filter, fail


class AvailabilityZoneFilter(Filter):
    """A host passes when it is in the availability zone that was asked for.

    A host's zones are the metadata of its aggregates; one without is in zone "nova". A request without a zone passes.
    Options: none. Aggregate metadata: availability_zone. Runs once per request.
    Source: nova.scheduler.filters.availability_zone_filter.AvailabilityZoneFilter, removed in Nova 28
    (map_az_to_placement_aggregate took its place).
    """

    run_filter_once_per_request = True

    def check(self, host_state, spec):
        zone = spec.availability_zone
        zones = sorted(merged_metadata(host_state.aggregates).get("availability_zone", {DEFAULT_ZONE}))
        return (
            PASS
            if not zone or zone in zones
            else fail("is in zone %s, asked for %s" % (", ".join(zones), zone), zones=zones, wanted=zone)
        )
