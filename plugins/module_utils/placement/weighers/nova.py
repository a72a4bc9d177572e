# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nova's weighers."""

from __future__ import annotations

from collections import Counter

from ..base import Weigher, parse_options


class RAMWeigher(Weigher):
    """Prefers hosts with more free memory (MiB, without the allocation ratio); a negative multiplier stacks.

    Source: nova.scheduler.weights.ram.RAMWeigher.
    """

    minval = 0
    multiplier_option = "ram_weight_multiplier"

    def raw(self, host_state, spec):
        return host_state.free_ram_mb


class CPUWeigher(Weigher):
    """Prefers hosts with more free vCPUs (total x cpu_allocation_ratio - used); a negative multiplier stacks.

    Source: nova.scheduler.weights.cpu.CPUWeigher.
    """

    minval = 0
    multiplier_option = "cpu_weight_multiplier"

    def raw(self, host_state, spec):
        return host_state.vcpus_total * host_state.cpu_allocation_ratio - host_state.vcpus_used


class DiskWeigher(Weigher):
    """Prefers hosts with more free disk (MiB); a negative multiplier stacks.

    Source: nova.scheduler.weights.disk.DiskWeigher.
    """

    minval = 0
    multiplier_option = "disk_weight_multiplier"

    def raw(self, host_state, spec):
        return host_state.free_disk_mb


class IoOpsWeigher(Weigher):
    """Avoids hosts that are busy with builds, resizes, migrations and snapshots.

    Source: nova.scheduler.weights.io_ops.IoOpsWeigher.
    """

    minval = 0
    multiplier_option = "io_ops_weight_multiplier"

    def raw(self, host_state, spec):
        return host_state.num_io_ops


class NumInstancesWeigher(Weigher):
    """Counts instances: a negative multiplier spreads them, a positive one stacks.

    Options: num_instances_weight_multiplier (0.0: off).
    Source: nova.scheduler.weights.num_instances.NumInstancesWeigher.
    """

    multiplier_option = "num_instances_weight_multiplier"

    def raw(self, host_state, spec):
        return host_state.num_instances


class PCIWeigher(Weigher):
    """Keeps hosts with many free PCI devices for requests that need them: 100 - min(free devices, 99) for each.

    Options: pci_weight_multiplier (1.0, not negative).
    Source: nova.scheduler.weights.pci.PCIWeigher.
    """

    multiplier_option = "pci_weight_multiplier"

    def raw(self, host_state, spec):
        return 100 - min(sum(pool["count"] for pool in host_state.pci_stats), 99)


class ServerGroupSoftAffinityWeigher(Weigher):
    """With group policy soft-affinity: prefers a host the more members of the group it has.

    Options: soft_affinity_weight_multiplier (1.0, not negative).
    Source: nova.scheduler.weights.affinity.ServerGroupSoftAffinityWeigher.
    """

    multiplier_option = "soft_affinity_weight_multiplier"

    def raw(self, host_state, spec):
        group = spec.instance_group
        if group is None or group.policy != "soft-affinity":
            return 0
        return len(group.members.intersection(host_state.instances))


class ServerGroupSoftAntiAffinityWeigher(Weigher):
    """With group policy soft-anti-affinity: avoids a host the more members of the group it has.

    Options: soft_anti_affinity_weight_multiplier (1.0, not negative).
    Source: nova.scheduler.weights.affinity.ServerGroupSoftAntiAffinityWeigher.
    """

    multiplier_option = "soft_anti_affinity_weight_multiplier"

    def raw(self, host_state, spec):
        group = spec.instance_group
        if group is None or group.policy != "soft-anti-affinity":
            return 0
        return -len(group.members.intersection(host_state.instances))


class BuildFailureWeigher(Weigher):
    """Avoids hosts where builds failed lately; the multiplier is negated.

    The count halves with each hour of the host's uptime; a build that works there sets it to 0, and so does
    ``berth.kvm.prepare_hosts --limit HOST -e berth_host_forget_failed_builds=true`` on a host that was repaired.

    Source: nova.scheduler.weights.compute.BuildFailureWeigher.
    """

    multiplier_option = "build_failure_weight_multiplier"
    sign = -1

    def raw(self, host_state, spec):
        return host_state.failed_builds


class CrossCellWeigher(Weigher):
    """For a move that may leave its cell: 1 for hosts in the preferred cell, -1 for others; else 0.

    A host's cell is its variable berth_host_cell. A resize or migration prefers the cell of the host that it leaves, and
    goes to another only if no host there will do; if the host that it leaves has no cell, all are alike.
    Normalised from the smallest to the largest.
    Options: cross_cell_move_weight_multiplier (1000000.0).
    Aggregate metadata: cross_cell_move_weight_multiplier.

    Source: nova.scheduler.weights.cross_cell.CrossCellWeigher.
    """

    multiplier_option = "cross_cell_move_weight_multiplier"

    def raw(self, host_state, spec):
        destination = spec.requested_destination or {}
        if not destination.get("cell") or not destination.get("allow_cross_cell_move"):
            return 0
        return 1 if host_state.cell_uuid == destination["cell"] else -1


class HypervisorVersionWeigher(Weigher):
    """Prefers hosts with a newer hypervisor; a negative multiplier prefers older ones.

    Source: nova.scheduler.weights.hypervisor_version.HypervisorVersionWeigher.
    """

    multiplier_option = "hypervisor_version_weight_multiplier"

    def raw(self, host_state, spec):
        return host_state.hypervisor_version or 0


class ImagePropertiesWeigher(Weigher):
    """Counts how often the image's properties occur among the instances of a host; a negative multiplier spreads them.

    image_props_weight_setting ["os_distro=2", ...] weighs properties; those that it does not name do not count.
    Normalised from the smallest to the largest.
    Options: image_props_weight_multiplier (0.0: off, whatever aggregates say), image_props_weight_setting ([]: every
    property counts 1). Aggregate metadata: image_props_weight_multiplier.

    Source: nova.scheduler.weights.image_props.ImagePropertiesWeigher.
    """

    multiplier_option = "image_props_weight_multiplier"

    def __init__(self, options):
        super().__init__(options)
        self.setting = dict(parse_options(options["image_props_weight_setting"]))

    def raw(self, host_state, spec):
        if self.configured() == 0.0:
            return 0.0
        there = Counter(
            (name, str(value))
            for uuid in list(host_state.instances)
            for name, value in host_state.image_props_of(uuid).items()
        )
        total = 0.0
        for name, value in spec.image_props.items():
            total += (self.setting.get(name, 0.0) if self.setting else 1.0) * there[(name, str(value))]
        return total


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
