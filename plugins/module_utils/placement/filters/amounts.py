# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters that compare amounts: vCPUs, memory, disk, instances, I/O operations; limits of the host or of its aggregates."""

from __future__ import annotations

from ...model.host_state import lowest
from ..base import PASS, Filter, fail
from ..networks_and_pools import counts_elsewhere
from ..text import number


def overcommitted(asked, total, used, ratio, unit):
    """Return the verdict of CoreFilter, RamFilter and DiskFilter on an amount; ``unit`` is for people."""
    limit = total * ratio
    numbers = {"asked": asked, "total": total, "used": used, "ratio": ratio, "limit": limit}
    if asked > total:
        return fail("needs %d %s, has %d in all" % (asked, unit, total), **numbers)
    if limit - used < asked:
        values = (asked, unit, number(limit - used), total, number(ratio))
        return fail("needs %d %s, %s free of %d x %s" % values, **numbers)
    return PASS


class CoreFilter(Filter):
    """A host passes when total x ratio less what is used leaves the vCPUs that the flavor needs.

    An instance may overcommit against others, never against itself: it must fit in the host's total. A host that
    reports no CPUs passes. A host that passes gets the limit ``vcpu``, which the claim tests again.
    Options: none. Aggregate metadata: none. Host: cpu_allocation_ratio. Runs for every instance.
    Source: nova.scheduler.filters.core_filter.CoreFilter, removed in Nova 20 (Placement took its place).
    """

    sets_limits = True

    def ratio(self, host_state):
        return host_state.cpu_allocation_ratio

    def check(self, host_state, spec):
        total = host_state.vcpus_total
        if not total:
            return PASS
        ratio = self.ratio(host_state)
        verdict = overcommitted(spec.vcpus, total, host_state.vcpus_used, ratio, "vCPUs")
        if verdict.passed:
            host_state.limits["vcpu"] = total * ratio
        return verdict


class AggregateCoreFilter(CoreFilter):
    """CoreFilter with a ratio per aggregate: the lowest of the host's aggregates, else the host's own.

    If a value is not a number, the host's own ratio counts.
    Options: none. Aggregate metadata: cpu_allocation_ratio. Runs for every instance.
    Source: nova.scheduler.filters.core_filter.AggregateCoreFilter, removed in Nova 22.
    """

    def ratio(self, host_state):
        return lowest(host_state.aggregates, "cpu_allocation_ratio", host_state.cpu_allocation_ratio, float)


class ExactCoreFilter(Filter):
    """A host passes when exactly the vCPUs that the flavor needs are free on it (for whole-host instances).

    A host that passes gets its total as the limit ``vcpu``, which the claim tests again: no second one fits.
    Options: none. Aggregate metadata: none. Runs for every instance.
    Source: nova.scheduler.filters.exact_core_filter.ExactCoreFilter, removed in Nova 18.
    """

    sets_limits = True

    def check(self, host_state, spec):
        asked = spec.vcpus
        free = host_state.vcpus_total - host_state.vcpus_used
        if asked != free:
            return fail("needs exactly %d vCPUs, %s free" % (asked, number(free)), asked=asked, free=free)
        host_state.limits["vcpu"] = host_state.vcpus_total
        return PASS


class RamFilter(Filter):
    """A host passes when total x ratio less what is used leaves the MiB of memory that the flavor needs.

    An instance may overcommit against others, never against itself: it must fit in the host's total. A host
    that passes gets the limit ``memory_mb``, which the claim tests again.
    Options: none. Aggregate metadata: none. Host: ram_allocation_ratio. Runs for every instance.
    Source: nova.scheduler.filters.ram_filter.RamFilter, removed in Nova 20 (Placement took its place).
    """

    sets_limits = True

    def ratio(self, host_state):
        return host_state.ram_allocation_ratio

    def check(self, host_state, spec):
        total = host_state.total_usable_ram_mb
        ratio = self.ratio(host_state)
        verdict = overcommitted(spec.memory_mb, total, total - host_state.free_ram_mb, ratio, "MiB of memory")
        if verdict.passed:
            host_state.limits["memory_mb"] = total * ratio
        return verdict


class AggregateRamFilter(RamFilter):
    """RamFilter with a ratio per aggregate: the lowest of the host's aggregates, else the host's own.

    If a value is not a number, the host's own ratio counts.
    Options: none. Aggregate metadata: ram_allocation_ratio. Runs for every instance.
    Source: nova.scheduler.filters.ram_filter.AggregateRamFilter, removed in Nova 22.
    """

    def ratio(self, host_state):
        return lowest(host_state.aggregates, "ram_allocation_ratio", host_state.ram_allocation_ratio, float)


class ExactRamFilter(Filter):
    """A host passes when exactly the MiB of memory that the flavor needs are free on it (for whole-host instances).

    A host that passes gets its total as the limit ``memory_mb``, which the claim tests again: no second one fits.
    Options: none. Aggregate metadata: none. Runs for every instance.
    Source: nova.scheduler.filters.exact_ram_filter.ExactRamFilter, removed in Nova 18.
    """

    sets_limits = True

    def check(self, host_state, spec):
        asked = spec.memory_mb
        free = host_state.free_ram_mb
        if asked != free:
            return fail("needs exactly %d MiB of memory, %s free" % (asked, number(free)), asked=asked, free=free)
        host_state.limits["memory_mb"] = host_state.total_usable_ram_mb
        return PASS


class DiskFilter(Filter):
    """A host passes when total x ratio less what is used leaves the MiB of disk that the flavor needs.

    An instance may overcommit against others, never against itself: it must fit in the host's total. A host
    that passes gets the limit ``disk_gb``, which the claim tests again. Disks in a pool on a file system of its own
    are not counted here, but by the capacity of that pool.
    Options: none. Aggregate metadata: none. Host: disk_allocation_ratio. Runs for every instance.
    Source: nova.scheduler.filters.disk_filter.DiskFilter, removed in Nova 20 (Placement took its place).
    """

    sets_limits = True

    def ratio(self, host_state):
        return host_state.disk_allocation_ratio

    def check(self, host_state, spec):
        if counts_elsewhere(host_state.document, spec):
            return PASS
        asked = spec.local_gb * 1024 + spec.swap
        total = host_state.total_usable_disk_gb * 1024
        ratio = self.ratio(host_state)
        verdict = overcommitted(asked, total, total - host_state.free_disk_mb, ratio, "MiB of disk")
        if verdict.passed:
            host_state.limits["disk_gb"] = total * ratio / 1024
        return verdict


class AggregateDiskFilter(DiskFilter):
    """DiskFilter with a ratio per aggregate: the lowest of the host's aggregates, else the host's own.

    If a value is not a number, the host's own ratio counts.
    Options: none. Aggregate metadata: disk_allocation_ratio. Runs for every instance.
    Source: nova.scheduler.filters.disk_filter.AggregateDiskFilter, removed in Nova 22.
    """

    def ratio(self, host_state):
        return lowest(host_state.aggregates, "disk_allocation_ratio", host_state.disk_allocation_ratio, float)


class ExactDiskFilter(Filter):
    """A host passes when exactly the MiB of disk that the flavor needs are free on it (for whole-host instances).

    A host that passes gets its total as the limit ``disk_gb``, which the claim tests again: no second one fits.
    Disks in a pool on a file system of its own are not counted here, but by the capacity of that pool.
    Options: none. Aggregate metadata: none. Runs for every instance.
    Source: nova.scheduler.filters.exact_disk_filter.ExactDiskFilter, removed in Nova 18.
    """

    sets_limits = True

    def check(self, host_state, spec):
        if counts_elsewhere(host_state.document, spec):
            return PASS
        asked = spec.local_gb * 1024 + spec.swap
        free = host_state.free_disk_mb
        if asked != free:
            return fail("needs exactly %d MiB of disk, %s free" % (asked, number(free)), asked=asked, free=free)
        host_state.limits["disk_gb"] = host_state.total_usable_disk_gb
        return PASS


class IoOpsFilter(Filter):
    """A host passes while it has fewer running operations (builds, resizes, migrations, snapshots) than max_io_ops_per_host.

    Options: max_io_ops_per_host (8). Aggregate metadata: none. Runs for every instance.
    Source: nova.scheduler.filters.io_ops_filter.IoOpsFilter.
    """

    def limit(self, host_state):
        return self.options["max_io_ops_per_host"]

    def check(self, host_state, spec):
        limit = self.limit(host_state)
        if host_state.num_io_ops < limit:
            return PASS
        return fail(
            "has %d of at most %d I/O operations" % (host_state.num_io_ops, limit),
            num_io_ops=host_state.num_io_ops,
            max_io_ops_per_host=limit,
        )


class AggregateIoOpsFilter(IoOpsFilter):
    """IoOpsFilter with a limit per aggregate: the lowest of the host's aggregates, else the option.

    If a value is not a whole number, the option counts.
    Options: max_io_ops_per_host (8). Aggregate metadata: max_io_ops_per_host. Runs for every instance.
    Source: nova.scheduler.filters.io_ops_filter.AggregateIoOpsFilter.
    """

    def limit(self, host_state):
        return lowest(host_state.aggregates, "max_io_ops_per_host", self.options["max_io_ops_per_host"], int)


class NumInstancesFilter(Filter):
    """A host passes while it has fewer instances than max_instances_per_host.

    Options: max_instances_per_host (50). Aggregate metadata: none. Runs for every instance.
    Source: nova.scheduler.filters.num_instances_filter.NumInstancesFilter.
    """

    def limit(self, host_state):
        return self.options["max_instances_per_host"]

    def check(self, host_state, spec):
        limit = self.limit(host_state)
        if host_state.num_instances < limit:
            return PASS
        return fail(
            "has %d of at most %d instances" % (host_state.num_instances, limit),
            num_instances=host_state.num_instances,
            max_instances_per_host=limit,
        )


class AggregateNumInstancesFilter(NumInstancesFilter):
    """NumInstancesFilter with a limit per aggregate: the lowest of the host's aggregates, else the option.

    If a value is not a whole number, the option counts.
    Options: max_instances_per_host (50). Aggregate metadata: max_instances_per_host. Runs for every instance.
    Source: nova.scheduler.filters.num_instances_filter.AggregateNumInstancesFilter.
    """

    def limit(self, host_state):
        return lowest(host_state.aggregates, "max_instances_per_host", self.options["max_instances_per_host"], int)
