# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MetricsFilter."""

from __future__ import annotations

from ..base import PASS, Filter, fail, parse_options


class MetricsFilter(Filter):
    """A host passes when it reports every metric that metrics.weight_setting names.

    Options: metrics.weight_setting ([]; "name=ratio"). Aggregate metadata: none. Runs for every instance.
    Source: nova.scheduler.filters.metrics_filter.MetricsFilter.
    """

    reads = ("metrics",)

    def __init__(self, options):
        super().__init__(options)
        self.names = {name for name, _ratio in parse_options(options["metrics"]["weight_setting"])}

    def check(self, host_state, spec):
        missing = sorted(self.names - {metric.name for metric in host_state.metrics})
        return fail("does not report %s" % ", ".join(missing), missing=missing) if missing else PASS
