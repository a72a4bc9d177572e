# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SimpleCIDRAffinityFilter."""

from __future__ import annotations

from ..base import PASS, Filter, fail

try:
    import netaddr
except ImportError:
    netaddr = None


class SimpleCIDRAffinityFilter(Filter):
    """With the hint ``build_near_host_ip`` a host passes when its address is in that network.

    The network is the hint's address followed by the hint ``cidr`` ("/24"). Needs the Python library netaddr.
    Options: none. Aggregate metadata: none. Runs once per request.
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
