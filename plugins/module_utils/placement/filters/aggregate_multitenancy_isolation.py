# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""AggregateMultiTenancyIsolation."""

from __future__ import annotations

from ...model.aggregate import merged_metadata
from ..base import PASS, Filter, fail


class AggregateMultiTenancyIsolation(Filter):
    """A host whose aggregates name tenants passes only for these projects; one whose aggregates name none, for all.

    Options: none. Aggregate metadata: every key that begins with filter_tenant_id, a comma list of projects.
    Runs once per request.
    Source: nova.scheduler.filters.aggregate_multitenancy_isolation.AggregateMultiTenancyIsolation.
    """

    run_filter_once_per_request = True

    def check(self, host_state, spec):
        tenants = set()
        for key, values in merged_metadata(host_state.aggregates).items():
            if key.startswith("filter_tenant_id"):
                tenants |= values
        if not tenants or spec.project_id in tenants:
            return PASS
        return fail(
            "is for projects %s" % ", ".join(sorted(tenants)), tenants=sorted(tenants), project_id=spec.project_id
        )
