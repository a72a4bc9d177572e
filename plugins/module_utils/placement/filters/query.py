# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter that asks for what a query in JMESPath says of the host."""

from __future__ import annotations

from ...model.host_state import HostState
from ..base import PASS, Filter, fail
from ..jmespath_query import cached

HINT = "berth_hints.query"
# How the values of HostState become the plain data that a query reads; all others are that already.
_PLAIN = {
    "aggregates": lambda host: [aggregate.to_dict() for aggregate in host.aggregates],
    "cpu_info": lambda host: host.capabilities,
    "instances": lambda host: list(host.instances.values()),
    "metrics": lambda host: {metric.name: metric.value for metric in host.metrics},
    "numa_topology": lambda host: host.numa_topology and host.numa_topology.to_document(),
    "traits": lambda host: sorted(host.traits),
}
_MAPPINGS, _LISTS = ("cpu_info", "metrics", "numa_topology", "service", "stats"), ("instances", "pci_stats")


def host_form():
    """The form of a host's document: the attributes of Nova's HostState, and its traits."""
    numbers = (
        "total_usable_ram_mb total_usable_disk_gb disk_mb_used free_ram_mb free_disk_mb vcpus_total vcpus_used "
        "num_instances num_io_ops failed_builds hypervisor_version ram_allocation_ratio cpu_allocation_ratio "
        "disk_allocation_ratio"
    ).split()
    texts = "host nodename uuid cell_uuid host_ip hypervisor_type hypervisor_hostname".split()
    return {
        **dict.fromkeys(texts, "text"),
        **dict.fromkeys(numbers, 1),
        **dict.fromkeys(_MAPPINGS, {}),
        **dict.fromkeys(_LISTS, []),
        "aggregates": [{"name": "text", "uuid": "text", "hosts": ["text"], "metadata": {}}],
        "supported_instances": [["text"]],
        "traits": ["text"],
    }


def check_hint(hints):
    """Raise InvalidInput if the request's hint is no query over a host: otherwise each host would refuse it."""
    for text in hints.get("query") or ():
        cached(text, HINT, host_form)


class QueryFilter(Filter):
    """A host passes when the hint ``query`` holds: a query in JMESPath, such as free_ram_mb >= `1024` && stats.tier == 'gold'.

    The successor of JsonFilter, which reads the same hint: enable one of them. The query is over the attributes of Nova's
    HostState, by their names, and ``traits``: sizes in MiB (total_usable_disk_gb in GiB); stats, service, cpu_info and
    metrics are mappings, aggregates, instances and pci_stats lists of mappings. A key that no host has, an unknown
    function and a comparison of different types are refused before a host is chosen.
    Source: none in Nova.
    """

    def about(self, spec):
        return None if spec.get_scheduler_hint("query") else ()

    def check(self, host_state, spec):
        text = spec.get_scheduler_hint("query")
        if not text:
            return PASS
        query = cached(text, HINT, host_form)
        document = document_of(query.names, host_state)
        if query.holds(document):
            return PASS
        values = query.values(document)
        said = ", ".join("%s is %s" % entry for entry in values.items())
        return fail("does not satisfy %s%s" % (text, said and ": " + said), query=text, values=values)


def document_of(names, host_state: HostState):
    """What a query that asks for these keys reads of the host."""
    return {name: _PLAIN[name](host_state) if name in _PLAIN else getattr(host_state, name) for name in names}
