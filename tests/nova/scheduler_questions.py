# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The questions about hosts: Nova's filters and weighers, and what they read extra specs and aggregates with."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any
from unittest import mock

import nova.conf
import translate
from ledger import CannotAsk, Ledger, ask
from nova.scheduler import filters as filters_package
from nova.scheduler import utils as scheduler_utils
from nova.scheduler import weights as weights_package
from nova.scheduler.filters import extra_specs_ops
from nova.scheduler.filters import utils as filter_utils

from ansible_collections.berth.kvm.plugins.module_utils.model.host_state import Aggregate, merged_metadata, values_of
from ansible_collections.berth.kvm.plugins.module_utils.placement import registry
from ansible_collections.berth.kvm.plugins.module_utils.placement.base import Weigher, normalize, parse_options
from ansible_collections.berth.kvm.plugins.module_utils.placement.filters import capabilities

# The key of the metadata that a filter reads through nova.scheduler.filters.utils.
KEYS = {
    "AggregateCoreFilter": "cpu_allocation_ratio",
    "AggregateDiskFilter": "disk_allocation_ratio",
    "AggregateIoOpsFilter": "max_io_ops_per_host",
    "AggregateNumInstancesFilter": "max_instances_per_host",
    "AggregateRamFilter": "ram_allocation_ratio",
    "AggregateTypeAffinityFilter": "instance_type",
    "AvailabilityZoneFilter": "availability_zone",
}


def install(ledger: Ledger) -> None:
    for class_ in _classes(filters_package, filters_package.BaseHostFilter):
        if "host_passes" in vars(class_):
            ask(ledger, class_, "host_passes", _filter, _verdict)
    for class_ in _classes(weights_package, weights_package.BaseHostWeigher):
        if class_.__name__ in registry.builtin("weighers") and "weight_multiplier" in vars(class_):
            ask(ledger, class_, "weight_multiplier", _multiplier)
    ask(ledger, weights_package.HostWeightHandler, "get_weighed_objects", _weights, _as_weights, _equal_weights)
    ask(ledger, extra_specs_ops, "match", _match, lambda found, *_given: bool(found))
    ask(ledger, filter_utils, "aggregate_values_from_key", _values)
    ask(ledger, filter_utils, "aggregate_metadata_get_by_host", _metadata)
    ask(ledger, scheduler_utils, "parse_options", _options)


def _classes(package: Any, base: type) -> list[type]:
    found: dict[str, type] = {}
    for _finder, name, _is_package in pkgutil.iter_modules(package.__path__):
        try:
            module = importlib.import_module("%s.%s" % (package.__name__, name))
        except ImportError:
            continue  # of an older Nova, and needs what is no longer there
        found.update(
            (variable.__name__, variable)
            for variable in vars(module).values()
            if isinstance(variable, type) and issubclass(variable, base)
        )
    return list(found.values())


# -- filters
def _replaced_aggregates(kind: str) -> list[Aggregate] | None:
    """The aggregates that a test gives by replacing what reads them, or None."""
    for name in ("aggregate_metadata_get_by_host", "aggregate_values_from_key"):
        stand_in = vars(filter_utils)[name]
        if not isinstance(stand_in, mock.NonCallableMock):
            continue
        given = stand_in.return_value
        if translate.is_stand_in(given):
            continue
        metadata = given if isinstance(given, dict) else {KEYS[kind]: given}
        return [
            Aggregate({"name": "%s-%d" % (key, number), "metadata": {key: str(value)}})
            for key, values in metadata.items()
            for number, value in enumerate(sorted(values) if isinstance(values, set | list | tuple) else [values])
        ]
    return None


def _service(host: Any, own: Any) -> dict[str, Any]:
    """The service of the host's compute, with the word of Nova's service group on whether it is up."""
    found = {name: bool(translate.get(host.service, name)) for name in ("disabled", "forced_down")}
    asked = type(own.servicegroup_api).service_is_up
    up = (
        asked.return_value
        if isinstance(asked, mock.NonCallableMock)
        else own.servicegroup_api.service_is_up(host.service)
    )
    return {**found, "up": bool(up)}


def _filter(own: Any, host: Any, spec: Any) -> Callable:
    name = type(own).__name__
    if name not in registry.builtin("filters"):
        raise CannotAsk("%s is a filter of the test's own" % name)
    if translate.is_stand_in(host.pci_stats) or translate.is_stand_in(
        getattr(host.pci_stats, "support_requests", None)
    ):
        raise CannotAsk("parts of Nova are replaced in it")
    wanted = translate.request(spec)
    if name == "JsonFilter" and "$capabilities" in str(wanted.scheduler_hints):
        raise CannotAsk("it reads an attribute that no HostState of Nova has")
    state = translate.host_state(host, _replaced_aggregates(name))
    if name == "ComputeFilter":
        state.service = _service(host, own)
    if translate.get(host, "allocation_candidates") and any(
        translate.get(entry, "mappings") for entry in translate.get(host, "allocation_candidates")
    ):
        raise CannotAsk("devices are resource providers of their own in Placement: a host here is one provider")
    filter_ = registry.find_filters([name])[0](translate.options(nova.conf.CONF))

    def answer() -> tuple:
        verdict = filter_.check(state, wanted)
        return verdict.passed, _limits(state.limits) if verdict.passed else {}

    return answer


def _verdict(found: Any, _own: Any, host: Any, _spec: Any) -> tuple:
    return bool(found), _limits(translate.get(host, "limits") or {}) if found else {}


def _limits(given: dict[str, Any]) -> dict[str, Any]:
    """Sizes; the limits of NUMA are compared where topologies are fitted."""
    return {name: float(value) for name, value in given.items() if name in ("vcpu", "memory_mb", "disk_gb")}


# -- weighers
def _weigher(own: Any) -> Weigher:
    name = type(own).__name__
    if name not in registry.builtin("weighers"):
        raise CannotAsk("%s is a weigher of the test's own" % name)
    return registry.find_weighers([name])[0](translate.options(nova.conf.CONF))


def _multiplier(own: Any, host: Any) -> Callable:
    weigher, state = _weigher(own), translate.host_state(host)
    return lambda: weigher.multiplier(state)


def _weights(_own: Any, weighers: list, hosts: list, properties: Any) -> Callable:
    ours = [_weigher(weigher) for weigher in weighers]
    states, spec = [translate.host_state(host) for host in hosts], translate.request(properties or {})

    def answer() -> list:
        sums = [0.0] * len(states)
        for entry in ours if len(states) > 1 else ():
            parts = normalize(entry.weigh(states, spec), entry.minval, entry.maxval)
            sums = [total + entry.multiplier(state) * part for total, state, part in zip(sums, states, parts)]
        return sorted(((total, state.host) for total, state in zip(sums, states)), key=lambda pair: -pair[0])

    return answer


def _as_weights(found: list, *_given: Any) -> list:
    return [(entry.weight, entry.obj.host) for entry in found]


def _equal_weights(ours: list, theirs: list) -> bool:
    return len(ours) == len(theirs) and all(
        left[1] == right[1] and abs(left[0] - right[0]) < 1e-9 for left, right in zip(ours, theirs)
    )


# -- aggregates and options
def _aggregates(host: Any) -> list[Aggregate]:
    return [translate.aggregate(aggregate) for aggregate in host.aggregates]


def _values(host: Any, key: str) -> Callable:
    found = _aggregates(host)
    return lambda: values_of(found, key)


def _metadata(host: Any, key: str | None = None) -> Callable:
    found = [aggregate for aggregate in _aggregates(host) if key is None or key in aggregate.metadata]
    return lambda: merged_metadata(found)


def _match(value: Any, wanted: str) -> Callable:
    return lambda: capabilities.match(value, wanted)


def _options(given: Any, sep: str, converter: Any, _name: str) -> Callable:
    if sep != "=":
        raise CannotAsk("options here are name=value alone")
    return lambda: parse_options(given, converter)
