# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters that keep instances together or apart: on the same or another host, in a group, near an address, by flavor."""

from __future__ import annotations

from ..base import PASS, Filter, fail


class DifferentHostFilter(Filter):
    """A host passes when it has none of the instances in the hint ``different_host`` (a uuid or a list).

    Source: nova.scheduler.filters.affinity_filter.DifferentHostFilter.
    """

    run_filter_once_per_request = True

    def about(self, spec):
        return spec.scheduler_hints.get("different_host", ())

    def check(self, host_state, spec):
        named = spec.get_scheduler_hint("different_host")
        here = sorted(
            {named} & set(host_state.instances)
            if isinstance(named, str)
            else set(named or ()) & set(host_state.instances)
        )
        return fail("has %s" % ", ".join(here), instances=here) if named and here else PASS


class SameHostFilter(Filter):
    """A host passes when it has at least one of the instances in the hint ``same_host`` (a uuid or a list).

    Source: nova.scheduler.filters.affinity_filter.SameHostFilter.
    """

    run_filter_once_per_request = True

    def about(self, spec):
        return spec.scheduler_hints.get("same_host", ())

    def check(self, host_state, spec):
        named = spec.get_scheduler_hint("same_host")
        if not named:
            return PASS
        named = {named} if isinstance(named, str) else set(named)
        return (
            PASS
            if named & set(host_state.instances)
            else fail("has none of %s" % ", ".join(sorted(named)), wanted=sorted(named))
        )


try:
    import netaddr
except ImportError:
    netaddr = None


class SimpleCIDRAffinityFilter(Filter):
    """With the hint ``build_near_host_ip`` a host passes when its address is in that network.

    The network is the hint's address followed by the hint ``cidr`` ("/24"). Needs the Python library netaddr.
    Source: nova.scheduler.filters.affinity_filter.SimpleCIDRAffinityFilter.
    """

    run_filter_once_per_request = True
    reads = ("host_ip",)

    def about(self, spec):
        return None if spec.get_scheduler_hint("build_near_host_ip") else ()

    def check(self, host_state, spec):
        near = spec.get_scheduler_hint("build_near_host_ip")
        if not near:
            return PASS
        if netaddr is None:
            raise ImportError("SimpleCIDRAffinityFilter needs the Python library netaddr on the controller")
        network = netaddr.IPNetwork(near + spec.get_scheduler_hint("cidr", "/24"))
        if netaddr.IPAddress(host_state.host_ip) in network:
            return PASS
        return fail(
            "address %s is not in %s" % (host_state.host_ip, network.cidr),
            host_ip=host_state.host_ip,
            network=str(network.cidr),
        )


class ServerGroupAffinityFilter(Filter):
    """With group policy affinity a host passes when members are on it, or while no member is anywhere.

    Source: nova.scheduler.filters.affinity_filter.ServerGroupAffinityFilter.
    """

    def about(self, spec):
        return group.members if (group := spec.instance_group) and group.policy == "affinity" else ()

    def check(self, host_state, spec):
        group = spec.instance_group
        if group is None or group.policy != "affinity" or not group.hosts or host_state.host in group.hosts:
            return PASS
        return fail("group %s is on %s" % (group.name, ", ".join(sorted(group.hosts))), hosts=sorted(group.hosts))


class ServerGroupAntiAffinityFilter(Filter):
    """With group policy anti-affinity a host passes while it has fewer members than max_server_per_host (1).

    A host that has this same instance passes too (a move may consider its own host).
    Group rule: max_server_per_host.
    Source: nova.scheduler.filters.affinity_filter.ServerGroupAntiAffinityFilter.
    """

    def about(self, spec):
        return group.members if (group := spec.instance_group) and group.policy == "anti-affinity" else ()

    def check(self, host_state, spec):
        group = spec.instance_group
        if group is None or group.policy != "anti-affinity" or spec.instance_uuid in host_state.instances:
            return PASS
        here = len(group.members.intersection(host_state.instances))
        limit = group.max_server_per_host
        if here < limit:
            return PASS
        return fail(
            "has %d of at most %d members of group %s" % (here, limit, group.name),
            members=here,
            max_server_per_host=limit,
        )


class TypeAffinityFilter(Filter):
    """A host passes when every instance on it is of the flavor that is asked for.

    Source: nova.scheduler.filters.type_filter.TypeAffinityFilter, removed in Nova 17.
    """

    def check(self, host_state, spec):
        others = {(instance.get("flavor") or {}).get("name") for instance in host_state.instances.values()} - {
            spec.flavor.name
        }
        others = sorted(str(name) for name in others)
        return fail("has instances of flavor %s" % ", ".join(others), flavors=others) if others else PASS
