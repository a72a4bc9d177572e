# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MetricsWeigher."""

from __future__ import annotations

from ..base import Weigher, parse_options


class MetricNotFound(ValueError):
    """A host does not report a metric that is required (Nova: ComputeHostMetricNotFound)."""


class MetricsWeigher(Weigher):
    """Sums the host's metrics, each times its ratio: weight_setting ["cpu.percent=-1.0", ...].

    A metric that the host does not report: with ``required`` the host cannot be weighed and drops out; else its raw
    weight is weight_of_unavailable. A host reports what its kernel measures (load, times, pressure, steal), and your own
    numbers in the files *.prom of its berth_host_metrics_directory: a name and a number in each line, such as
    "rack_watts 312.5". Metrics that Nova counts in percent are whole hundredths, as in Nova. Normalised
    from the smallest to the largest.
    Options: metrics.weight_multiplier (1.0), metrics.weight_setting ([]), metrics.required (true),
    metrics.weight_of_unavailable (-10000.0). Aggregate metadata: metrics_weight_multiplier.

    Source: nova.scheduler.weights.metrics.MetricsWeigher.
    """

    multiplier_option = "metrics_weight_multiplier"

    def __init__(self, options):
        super().__init__(options)
        self.metrics = options["metrics"]
        self.setting = parse_options(self.metrics["weight_setting"])

    def configured(self):
        return self.metrics["weight_multiplier"]

    def raw(self, host_state, spec):
        values = {metric.name: metric.value for metric in host_state.metrics}
        total = 0.0
        for name, ratio in self.setting:
            if name in values:
                total += values[name] * ratio
            elif self.metrics["required"]:
                raise MetricNotFound("does not report metric %s" % name)
            elif ratio * self.multiplier(host_state) != 0:
                return self.metrics["weight_of_unavailable"]
        return total
