# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placement as a library: host documents and requests in, selections and their reasons out. The requests of one batch
(berth_count) get their hosts all together, or none of them does. A group policy that no enabled filter or weigher enforces
is refused.

Nothing here reads a file, a clock or a hidden random number: the same input and seed give the same answer.
"""

from __future__ import annotations

import copy
import random

from ..model.host_state import Aggregate, HostState
from ..model.request_spec import RequestSpec
from ..model.resources import InstanceTopology
from . import numa, pci, registry
from .errors import NoValidHost, UnsupportedPolicy
from .fast.hosts import instance_hosts
from .fast.pipeline import FastPipeline, serves
from .options import read_options
from .pipeline import Pipeline, run_simple
from .result import RequestResult, Result


def prepare(spec, aliases, known=None):
    """Derive NUMA topology and PCI requests from flavor and image, where the document has none; return ``spec``.

    ``known`` keeps the results for the next request of the same flavor and image.
    """
    known = {} if known is None else known
    has_requests = spec.pci_requests is not None  # which may be of aliases that only that instance has
    key = (repr(spec.flavor.document), repr(spec.image.document) if spec.image else None, has_requests)
    if key not in known:
        known[key] = (
            numa.constraints(spec.flavor, spec.image_props),
            None if has_requests else pci.requests_from(spec.flavor, spec.image_props, aliases),
        )
    topology, requests = known[key]
    spec.topology = InstanceTopology.from_document(spec.numa_topology) or (topology.copy() if topology else None)
    if not has_requests:
        spec.pci_requests = requests
    return spec


# policy: what must be enabled for it
POLICY_NEEDS = {
    "affinity": "ServerGroupAffinityFilter",
    "anti-affinity": "ServerGroupAntiAffinityFilter",
    "soft-affinity": "ServerGroupSoftAffinityWeigher",
    "soft-anti-affinity": "ServerGroupSoftAntiAffinityWeigher",
}


def select_destinations(
    host_documents,
    request_specs,
    options=None,
    aggregates=(),
    seed=0,
    plugins=(),
    explain=False,
    check_policies=True,
    fast=True,
):
    """Choose a host for every instance of every request.

    ``host_documents``: documents of host_facts, or HostStates (left unchanged). ``request_specs``: RequestSpecs or
    their documents, placed in order, each all or nothing; those of one ``batch_id`` all or nothing together.
    ``options``: see options.OPTIONS. ``aggregates``: documents {name, hosts, metadata}. ``plugins``: filter and weigher
    classes that may be enabled by class name. ``explain``: keep the verdicts of every filter on every host (a failure
    always has them). ``check_policies``: refuse a group policy whose filter or weigher is not enabled, as
    nova-conductor does. ``fast`` false: the plain pipeline for every request (the same answers; for tests). Returns a
    Result; a request without a valid host has its NoValidHost there. Raises for invalid input.
    """
    filters, weighers, options = load(options, plugins)
    aggregates = [
        aggregate if isinstance(aggregate, Aggregate) else Aggregate(aggregate) for aggregate in aggregates or ()
    ]
    specs = _prepared(request_specs, options)
    for spec in specs if check_policies else ():
        check_policy(spec, filters, weighers)
    for weigher in weighers:
        weigher.expect(specs)
    rng = random.Random(seed)
    hosts = list(host_documents)
    if fast and serves(options, filters):
        pipeline = FastPipeline(hosts, options, filters, weighers, aggregates, rng)
    else:
        pipeline = Pipeline(host_states(hosts, aggregates), options, filters, weighers, aggregates, rng)
    return Result(_run(pipeline, Groups(hosts), specs, explain), lambda: pipeline.host_states, seed)


def _prepared(request_specs, options):
    """Return the requests as RequestSpecs with all that filters read. The caller's own stay as they are."""
    specs = [
        copy.copy(spec) if isinstance(spec, RequestSpec) else RequestSpec.from_dict(spec) for spec in request_specs
    ]
    aliases, known = pci.read_aliases(options["pci_alias"]), {}
    for spec in specs:
        prepare(spec, aliases, known)
    return specs


def load(options, plugins=()):
    """Return (filters, weighers, options) of an options document, all complete and checked."""
    values = dict(options or {})
    own = {class_.__name__: class_ for class_ in plugins}

    def named(names):
        return [own.get(name, name) if isinstance(name, str) else name for name in names]

    lists = ("enabled_filters", "available_filters", "weight_classes")
    base = read_options({name: values[name] for name in lists if name in values})
    filter_classes = registry.find_filters(named(base["enabled_filters"]))
    registry.check_available(named(base["available_filters"]), filter_classes)
    weigher_classes = registry.find_weighers(named(base["weight_classes"]))
    classes = [("filters", class_) for class_ in filter_classes] + [("weighers", class_) for class_ in weigher_classes]
    options = read_options(values, [registry.declared_options(*class_) for class_ in classes])
    filters, weighers = [
        [registry.make(kind, class_, options) for kind, class_ in classes if kind == wanted]
        for wanted in registry.FIELDS
    ]
    return filters, weighers, options


def host_states(host_documents, aggregates):
    """Return HostStates of the caller's documents or states, with their aggregates."""
    states = [host.copy() if isinstance(host, HostState) else HostState.from_document(host) for host in host_documents]
    if aggregates:
        of_host = {}
        for aggregate in aggregates:
            for host in aggregate.hosts:
                of_host.setdefault(host, []).append(aggregate)
        for state in states:
            state.aggregates = of_host.get(state.host, [])
    return states


def check_policy(spec, filters, weighers):
    """Raise UnsupportedPolicy for a group whose policy nothing would enforce."""
    group = spec.instance_group
    needed = POLICY_NEEDS.get(group.policy) if group else None
    if needed and needed not in {plugin.name for plugin in filters + weighers}:
        raise UnsupportedPolicy(
            "server group %s has policy %s, but %s is not enabled" % (group.name or group.uuid, group.policy, needed),
            field="group.policy",
            value=group.policy,
            rule="%s among enabled_filters or weight_classes" % needed,
        )


class Groups:
    """Server groups across the requests of one run: who is a member, and on which hosts members are."""

    def __init__(self, hosts):
        self.hosts = hosts
        self.host_of = None
        self.groups = {}
        self.placed_here = {}

    def join(self, spec):
        """Give the spec the run's shared group object, with its instances as members; return an undo function."""
        if spec.instance_group is None:
            return lambda: None
        if self.host_of is None:
            self.host_of = dict(instance_hosts(self.hosts), **self.placed_here)
        group = self.groups.setdefault(spec.instance_group.uuid, spec.instance_group)
        before = set(group.members), set(group.hosts)
        group.members |= spec.instance_group.members | set(spec.instance_uuids)
        others = group.members.difference(spec.instance_uuids)  # what moves does not hold itself back
        group.hosts |= {self.host_of[uuid] for uuid in others if uuid in self.host_of}
        spec.instance_group = group

        def undo():
            group.members, group.hosts = before

        return undo

    def placed(self, result):
        for selection in result.selections:
            self.placed_here[selection.uuid] = selection.host
            if self.host_of is not None:
                self.host_of[selection.uuid] = selection.host

    def forget(self, result):
        for selection in result.selections:
            self.placed_here.pop(selection.uuid, None)
            if self.host_of is not None:
                self.host_of.pop(selection.uuid, None)


def _run(pipeline, groups, specs, explain):
    results, number = [], 0
    while number < len(specs):
        batch = [specs[number]]
        identity = batch[0].batch_id
        while (
            identity is not None
            and number + len(batch) < len(specs)
            and specs[number + len(batch)].batch_id == identity
        ):
            batch.append(specs[number + len(batch)])
        results += _run_batch(pipeline, groups, batch, explain)
        number += len(batch)
    return results


def _run_batch(pipeline, groups, batch, explain):
    """Place all requests of a batch, or none of them."""
    pipeline.begin()
    results, undos = [], []
    for spec in batch:
        undos.append(groups.join(spec))
        result = run_one(pipeline, spec, explain)
        results.append(result)
        if result.error is not None:
            break
        groups.placed(result)
    failed = results[-1]
    if failed.error is None:
        return results
    if len(batch) > 1:
        pipeline.rollback()
        for result in results:
            groups.forget(result)
    for undo in reversed(undos):
        undo()
    return [failed if spec is failed.spec else _not_placed(spec, failed) for spec in batch]


def _not_placed(spec, failed):
    message = "%s is not placed: %s of its batch has no valid host" % (spec.name, failed.spec.name)
    return RequestResult(spec, (), NoValidHost(message), None)


def run_one(pipeline, spec, explain):
    if pipeline.options["driver"] == "filter":
        return pipeline.run(spec, explain)
    return run_simple(pipeline, spec, explain)
