# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""AggregateImagePropertiesIsolation."""

from __future__ import annotations

from ...model.aggregate import merged_metadata
from ..base import PASS, Filter, fail


class AggregateImagePropertiesIsolation(Filter):
    """A host passes when the image's properties agree with its aggregates' metadata of the same keys.

    Only properties that Nova knows count; one that the image does not set agrees with anything. A metadata value is a
    comma list.
    Options: aggregate_image_properties_isolation_namespace (none) and aggregate_image_properties_isolation_separator
    ("."): only keys that begin with both. Aggregate metadata: any image property. Runs once per request, and on rebuild.
    Source: nova.scheduler.filters.aggregate_image_properties_isolation.AggregateImagePropertiesIsolation.
    """

    run_filter_once_per_request = True
    run_on_rebuild = True

    def check(self, host_state, spec):
        namespace = self.options["aggregate_image_properties_isolation_namespace"]
        prefix = namespace + self.options["aggregate_image_properties_isolation_separator"] if namespace else ""
        props = spec.image_props
        for key, allowed in merged_metadata(host_state.aggregates).items():
            have = props.get(key) if key.startswith(prefix) else None
            if have and str(have) not in allowed:
                return fail(
                    "%s=%s is not one of %s" % (key, have, ", ".join(sorted(allowed))),
                    property=key,
                    allowed=sorted(allowed),
                )
        return PASS
