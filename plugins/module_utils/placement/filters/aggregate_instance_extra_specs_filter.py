# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""AggregateInstanceExtraSpecsFilter."""

from __future__ import annotations

from ...model.aggregate import merged_metadata
from .. import extra_specs
from ..base import PASS, Filter, fail

SCOPE = "aggregate_instance_extra_specs"


class AggregateInstanceExtraSpecsFilter(Filter):
    """A host passes when its aggregates' metadata has what the flavor's extra specs ask for.

    Extra specs without a scope count, and those that begin with ``aggregate_instance_extra_specs:``. The key must exist,
    and one of its values (a comma list) must match, with the operators of ComputeCapabilitiesFilter.
    Options: none. Aggregate metadata: any key. Runs once per request.
    Source: nova.scheduler.filters.aggregate_instance_extra_specs.AggregateInstanceExtraSpecsFilter.
    """

    run_filter_once_per_request = True

    def about(self, spec):
        return None if spec.flavor.extra_specs else ()

    def check(self, host_state, spec):
        metadata = merged_metadata(host_state.aggregates)
        for key, wanted in spec.flavor.extra_specs.items():
            scope, colon, rest = key.partition(":")
            if colon and scope != SCOPE:
                continue
            key = rest if colon else key
            values = metadata.get(key)
            if not values:
                return fail("no aggregate has %s" % key, key=key, wanted=wanted)
            if not any(extra_specs.match(value, wanted) for value in values):
                return fail(
                    "%s is %s, wanted %s" % (key, ", ".join(sorted(values)), wanted),
                    key=key,
                    wanted=wanted,
                    have=sorted(values),
                )
        return PASS
