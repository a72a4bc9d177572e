# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""AggregateTypeAffinityFilter."""

from __future__ import annotations

from ...model.aggregate import values_of
from ..base import PASS, Filter, fail


class AggregateTypeAffinityFilter(Filter):
    """A host whose aggregates name flavors passes only for these; one whose aggregates name none, for all.

    Options: none. Aggregate metadata: instance_type, a comma list of flavor names. Runs once per request.
    Source: nova.scheduler.filters.type_filter.AggregateTypeAffinityFilter.
    """

    run_filter_once_per_request = True

    def check(self, host_state, spec):
        values = values_of(host_state.aggregates, "instance_type")
        named = sorted({part.strip() for value in values for part in value.split(",")})
        if not values or spec.flavor.name in named:
            return PASS
        return fail("is for flavors %s" % ", ".join(named), flavors=named)
