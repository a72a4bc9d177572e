# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters that compare amounts: vCPUs, memory, disk, instances, I/O operations; limits of the host or of its aggregates."""

from __future__ import annotations

from ...model.host_state import lowest
from ..base import PASS, Filter, fail
from ..networks_and_pools import counts_elsewhere
from ..text import number


class _AmountFilter(Filter):
    """Sets ``unit`` (for people), ``ratio_key`` (the host's field and the aggregates' key) and ``limit``, which the claim
    tests again; amounts() are (asked, total, free), in ``scale`` parts of the limit's unit."""

    sets_limits = True
    scale = 1

    def ratio(self, host_state):
        return getattr(host_state, self.ratio_key)

    def check(self, host_state, spec):
        asked, total, free = self.amounts(host_state, spec)
        ratio = self.ratio(host_state)
        verdict = self.judge(asked, total * self.scale, free, ratio)
        if verdict.passed:
            host_state.limits[self.limit] = total * ratio
        return verdict

    def judge(self, asked, total, free, ratio):
        limit, used = total * ratio, total - free
        numbers = {"asked": asked, "total": total, "used": used, "ratio": ratio, "limit": limit}
        if asked > total:
            return fail("needs %d %s, has %d in all" % (asked, self.unit, total), **numbers)
        if limit - used < asked:
            values = (asked, self.unit, number(limit - used), total, number(ratio))
            return fail("needs %d %s, %s free of %d x %s" % values, **numbers)
        return PASS


class _Exact:
    def ratio(self, host_state):
        return 1

    def judge(self, asked, _total, free, _ratio):
        reason = "needs exactly %d %s, %s free" % (asked, self.unit, number(free))
        return PASS if asked == free else fail(reason, asked=asked, free=free)


class _OfAggregates:
    def ratio(self, host_state):
        return lowest(host_state.aggregates, self.ratio_key, super().ratio(host_state), float)


class CoreFilter(_AmountFilter):
    """A host passes when total x ratio less what is used leaves the vCPUs that the flavor needs.

    An instance may overcommit against others, never against itself: it must fit in the host's total. A host that
    reports no CPUs passes. A host that passes gets the limit ``vcpu``, which the claim tests again.
    Host: cpu_allocation_ratio.
    Source: nova.scheduler.filters.core_filter.CoreFilter, removed in Nova 20 (Placement took its place).
    """

    unit, ratio_key, limit = "vCPUs", "cpu_allocation_ratio", "vcpu"

    def amounts(self, host_state, spec):
        return spec.vcpus, host_state.vcpus_total, host_state.vcpus_total - host_state.vcpus_used

    def check(self, host_state, spec):
        return super().check(host_state, spec) if host_state.vcpus_total else PASS


class AggregateCoreFilter(_OfAggregates, CoreFilter):
    """CoreFilter with a ratio per aggregate: the lowest of the host's aggregates, else the host's own.

    It lowers what the host takes and never raises it: what the host can have allocated in all binds as well, as
    Placement's inventory does in Nova. If a value is not a number, the host's own ratio counts.
    Aggregate metadata: cpu_allocation_ratio.
    Source: nova.scheduler.filters.core_filter.AggregateCoreFilter, removed in Nova 22.
    """


class ExactCoreFilter(_Exact, CoreFilter):
    """A host passes when exactly the vCPUs that the flavor needs are free on it (for whole-host instances).

    A host that passes gets its total as the limit ``vcpu``, which the claim tests again: no second one fits.
    Source: nova.scheduler.filters.exact_core_filter.ExactCoreFilter, removed in Nova 18.
    """

    check = _AmountFilter.check  # a host that reports no CPUs has none free


class RamFilter(_AmountFilter):
    """A host passes when total x ratio less what is used leaves the MiB of memory that the flavor needs.

    An instance may overcommit against others, never against itself: it must fit in the host's total. A host
    that passes gets the limit ``memory_mb``, which the claim tests again.
    Host: ram_allocation_ratio.
    Source: nova.scheduler.filters.ram_filter.RamFilter, removed in Nova 20 (Placement took its place).
    """

    unit, ratio_key, limit = "MiB of memory", "ram_allocation_ratio", "memory_mb"

    def amounts(self, host_state, spec):
        return spec.memory_mb, host_state.total_usable_ram_mb, host_state.free_ram_mb


class AggregateRamFilter(_OfAggregates, RamFilter):
    """RamFilter with a ratio per aggregate: the lowest of the host's aggregates, else the host's own.

    It lowers what the host takes and never raises it: what the host can have allocated in all binds as well, as
    Placement's inventory does in Nova. If a value is not a number, the host's own ratio counts.
    Aggregate metadata: ram_allocation_ratio.
    Source: nova.scheduler.filters.ram_filter.AggregateRamFilter, removed in Nova 22.
    """


class ExactRamFilter(_Exact, RamFilter):
    """A host passes when exactly the MiB of memory that the flavor needs are free on it (for whole-host instances).

    A host that passes gets its total as the limit ``memory_mb``, which the claim tests again: no second one fits.
    Source: nova.scheduler.filters.exact_ram_filter.ExactRamFilter, removed in Nova 18.
    """


class DiskFilter(_AmountFilter):
    """A host passes when total x ratio less what is used leaves the MiB of disk that the flavor needs.

    An instance may overcommit against others, never against itself: it must fit in the host's total. A host
    that passes gets the limit ``disk_gb``, which the claim tests again. Disks in a pool on a file system of its own
    are not counted here, but by the capacity of that pool.
    Host: disk_allocation_ratio.
    Source: nova.scheduler.filters.disk_filter.DiskFilter, removed in Nova 20 (Placement took its place).
    """

    unit, ratio_key, limit, scale = "MiB of disk", "disk_allocation_ratio", "disk_gb", 1024

    def amounts(self, host_state, spec):
        return spec.local_gb * 1024 + spec.swap, host_state.total_usable_disk_gb, host_state.free_disk_mb

    def check(self, host_state, spec):
        return PASS if counts_elsewhere(host_state.document, spec) else super().check(host_state, spec)


class AggregateDiskFilter(_OfAggregates, DiskFilter):
    """DiskFilter with a ratio per aggregate: the lowest of the host's aggregates, else the host's own.

    It lowers what the host takes and never raises it: what the host can have allocated in all binds as well, as
    Placement's inventory does in Nova. If a value is not a number, the host's own ratio counts.
    Aggregate metadata: disk_allocation_ratio.
    Source: nova.scheduler.filters.disk_filter.AggregateDiskFilter, removed in Nova 22.
    """


class ExactDiskFilter(_Exact, DiskFilter):
    """A host passes when exactly the MiB of disk that the flavor needs are free on it (for whole-host instances).

    A host that passes gets its total as the limit ``disk_gb``, which the claim tests again: no second one fits.
    Disks in a pool on a file system of its own are not counted here, but by the capacity of that pool.
    Source: nova.scheduler.filters.exact_disk_filter.ExactDiskFilter, removed in Nova 18.
    """


class _CountFilter(Filter):
    """``counted`` is the host's field, ``most`` the option and the aggregates' key."""

    counted: str
    most: str
    unit: str

    def limit(self, host_state):
        return self.options[self.most]

    def check(self, host_state, spec):
        limit, there = self.limit(host_state), getattr(host_state, self.counted)
        if there < limit:
            return PASS
        reason = "has %d of at most %d %s" % (there, limit, self.unit)
        return fail(reason, **{self.counted: there, self.most: limit})


class _CountOfAggregates:
    """Before a _CountFilter: its limit is the lowest of the host's aggregates, else the option."""

    def limit(self, host_state):
        return lowest(host_state.aggregates, self.most, super().limit(host_state), int)


class IoOpsFilter(_CountFilter):
    """A host passes while it has fewer running operations (builds, resizes, migrations, snapshots) than max_io_ops_per_host.

    Options: max_io_ops_per_host (8).
    Source: nova.scheduler.filters.io_ops_filter.IoOpsFilter.
    """

    counted, most, unit = "num_io_ops", "max_io_ops_per_host", "I/O operations"


class AggregateIoOpsFilter(_CountOfAggregates, IoOpsFilter):
    """IoOpsFilter with a limit per aggregate: the lowest of the host's aggregates, else the option.

    If a value is not a whole number, the option counts.
    Options: max_io_ops_per_host (8). Aggregate metadata: max_io_ops_per_host.
    Source: nova.scheduler.filters.io_ops_filter.AggregateIoOpsFilter.
    """


class NumInstancesFilter(_CountFilter):
    """A host passes while it has fewer instances than max_instances_per_host.

    Options: max_instances_per_host (50).
    Source: nova.scheduler.filters.num_instances_filter.NumInstancesFilter.
    """

    counted, most, unit = "num_instances", "max_instances_per_host", "instances"


class AggregateNumInstancesFilter(_CountOfAggregates, NumInstancesFilter):
    """NumInstancesFilter with a limit per aggregate: the lowest of the host's aggregates, else the option.

    If a value is not a whole number, the option counts.
    Options: max_instances_per_host (50). Aggregate metadata: max_instances_per_host.
    Source: nova.scheduler.filters.num_instances_filter.AggregateNumInstancesFilter.
    """
