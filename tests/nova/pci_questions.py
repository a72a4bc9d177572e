# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The questions about PCI devices: nova.pci.request and nova.pci.stats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nova.conf
import translate
from ledger import CannotAsk, Ledger, ask
from nova.pci import request as request_module
from nova.pci import stats

from ansible_collections.berth.kvm.plugins.module_utils.model.resources import pci_pools
from ansible_collections.berth.kvm.plugins.module_utils.placement import pci


def install(ledger: Ledger) -> None:
    ask(ledger, request_module, "get_alias_from_config", _aliases, _as_aliases)
    ask(ledger, request_module, "get_pci_requests_from_flavor", _from_flavor, _as_requests)
    ask(ledger, stats.PciDeviceStats, "support_requests", _support, lambda found, *_given: bool(found))
    ask(ledger, stats.PciDeviceStats, "apply_requests", _apply, lambda _found, own, *_given: _counts(own))
    ask(ledger, stats.PciDeviceStats, "consume_requests", _consume, lambda _found, own, *_given: _counts(own))


def _configured() -> list[dict]:
    from oslo_serialization import jsonutils

    return [jsonutils.loads(alias) for alias in nova.conf.CONF.pci.alias]


def _aliases() -> Callable:
    given = _configured()
    return lambda: {
        name: (policy, [_spec(spec) for spec in specs]) for name, (policy, specs) in pci.read_aliases(given).items()
    }


def _as_aliases(found: dict) -> dict:
    return {name: (policy, [_spec(spec) for spec in specs]) for name, (policy, specs) in found.items()}


def _spec(given: dict) -> dict:
    """Without what placement here does not read."""
    return {key: value for key, value in given.items() if key != "capability_type"}


def _from_flavor(flavor: Any, policy: str | None) -> Callable:
    read, given = translate.flavor(flavor), _configured()
    props = {"hw_pci_numa_affinity_policy": policy} if policy else {}
    return lambda: [
        (entry["alias_name"], entry["count"], [_spec(each) for each in entry["spec"]], entry["numa_policy"])
        for entry in pci.requests_from(read, props, pci.read_aliases(given))
    ]


def _as_requests(found: Any, *_given: Any) -> list:
    return [
        (request.alias_name, request.count, [_spec(dict(each)) for each in request.spec], request.numa_policy)
        for request in found.requests
    ]


# -- pools
def _plain(own: Any, requests: Any, mapping: Any, cells: Any) -> tuple:
    if mapping or any("rp_uuid" in pool or "rp_uuids" in str(requests) for pool in own.pools):
        raise CannotAsk("devices are resource providers of their own in Placement: a host here is one provider")
    near = [translate.InstanceCell(translate.instance_cell(cell)) for cell in cells] if cells else None
    return translate.pools(own), translate.pci_requests(requests), near, translate.host_topology(own.numa_topology)


def _support(own: Any, requests: Any, mapping: Any, cells: Any) -> Callable:
    given = _plain(own, requests, mapping, cells)
    return lambda: pci.supports(*given)


def _counts(own: Any) -> list:
    """How many devices of which pool are left; pools that are empty may be there or not."""
    return _left(translate.pools(own))


def _left(pools: list) -> list:
    return sorted(str(sorted(pool.items(), key=str)) for pool in pci_pools(pools) if pool["count"])


def _apply(own: Any, requests: Any, mapping: Any, cells: Any) -> Callable:
    pools, asked, near, topology = _plain(own, requests, mapping, cells)

    def answer() -> list:
        if pci.take(pools, asked, near, topology) is None:
            raise ValueError("does not fit")
        return _left(pools)

    return answer


def _consume(own: Any, requests: Any, cells: Any = None) -> Callable:
    if {"type-PF", "type-VF"} <= {pool.get("dev_type") for pool in own.pools}:
        raise CannotAsk("a function that is taken takes its parent or children along, which here the host's facts tell")
    return _apply(own, requests, None, cells)
