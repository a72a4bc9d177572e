# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Subtracts a placed instance from its host, so that the next instance sees what is left."""

from __future__ import annotations

from . import capacity, numa_usage, pci


def consume(spec, host_state, amounts, packing):
    """Subtract the instance from the host; return (allocation, what did not fit).

    NUMA cells and PCI devices that no enabled filter has tested may turn out not to fit here. As in Nova, the host
    stays chosen and its claim will decide; the rest of its state, from the PCI devices on, is then not counted.
    """
    topology, fitted, reason = spec.topology, None, ""
    if topology and host_state.numa_topology:
        limits = host_state.limits.get("numa_topology")
        fitted = capacity.fit_numa(host_state, topology, limits, spec.pci_requests, packing)
        reason = "" if fitted else "the NUMA topology does not fit"
        # The next instance of the request asks for what this one got.
        spec.topology = fitted
    cells = spec.topology.cells if spec.topology else None
    devices, missing = [], False
    pools = pci.copy_pools(host_state.pci_stats)
    for request in spec.pci_requests:
        taken = pci.take(pools, [request], cells, host_state.numa_topology)
        if taken is None:
            missing, reason = True, "has no free PCI devices for %s" % request["alias_name"]
            break
        devices += taken
    allocation = capacity.allocation_of(amounts, fitted, pci.give_addresses(host_state.pci_devices, devices))
    try:
        capacity.consume(host_state, spec, allocation)
        if missing:
            host_state.num_io_ops -= 1
    except numa_usage.PinningInvalid as error:
        reason = str(error)
    return allocation, reason


def settle(host_state, spec, selection):
    """Let later requests see the instance that was placed on the host."""
    host_state.instances[selection.uuid] = {
        "uuid": selection.uuid,
        "name": selection.name,
        "flavor": {"name": spec.flavor.name},
        "image_props": spec.image.properties if spec.image else {},
    }
