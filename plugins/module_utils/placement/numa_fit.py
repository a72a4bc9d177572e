# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NUMA: whether and how the topology that an instance asks for fits on the cells of a host.

The rules are those of nova.virt.hardware, including the order in which cells are tried, so that the same cells are
chosen. Sizes: memory in MiB, pages in KiB.
"""

from __future__ import annotations

import itertools

from ..model.resources import PAGES_ANY, PAGES_LARGE, PAGES_SMALL, InstanceTopology


def _can_fit_pages(cell, size, memory_kb, use_free=True):
    """Whether memory fits in pages of this size; None where the cell has no such pages."""
    for pages in cell.mempages:
        if pages.size_kb == size:
            return memory_kb <= (pages.free_kb if use_free else pages.total_kb) and memory_kb % size == 0
    return None


def _choose_page_size(host_cell, cell):
    sizes = sorted((pages.size_kb for pages in host_cell.mempages), reverse=True)
    choices = {PAGES_SMALL: sizes[-1:], PAGES_LARGE: sizes[:-1], PAGES_ANY: sizes}.get(cell.pagesize, [cell.pagesize])
    for size in choices:
        if _can_fit_pages(host_cell, size, cell.memory_mb * 1024):
            return size
    return None


def _pin(threads, cores, vcpus):
    """[(vcpu, pcpu)] using ``threads`` threads of each core, or None where there are too few."""
    if threads * len(cores) < len(vcpus):
        return None
    usable = [pcpu for core in cores for pcpu in sorted(core)[:threads]]
    return list(zip(sorted(vcpus), usable))


def _reserve(cores, pinning, number, whole_cores):
    """Host CPUs kept for the emulator: free threads that the pinning leaves (whole cores where they are isolated)."""
    if not pinning or not number:
        return frozenset()
    taken = {pcpu for _vcpu, pcpu in pinning}
    left = []
    for core in cores:
        if whole_cores and taken & core:
            continue
        left.extend(sorted(core - taken))
    return frozenset(left[:number])


def _pack(host_cell, cell, reserved):
    """Pin the cell's vCPUs on the free cores of a host cell; return the cell, or None.

    Cores with more free threads are used first; require wants at least two threads of each core, isolate one thread
    of wholly free cores (source: nova.virt.hardware._pack_instance_onto_cores).
    """
    threads_per_core = max([len(sibling_set) for sibling_set in host_cell.siblings] or [1]) or 1
    policy = cell.cpu_thread_policy
    by_threads = {}
    for core in host_cell.siblings:
        free = core & host_cell.free_pcpus
        for threads in range(1, len(free) + 1):
            by_threads.setdefault(threads, []).append(free)
    any_free = by_threads.get(1, [])
    pinning, kept = None, frozenset()
    if policy == "isolate":
        if threads_per_core not in by_threads or (threads_per_core != 1 and host_cell.pcpuset != host_cell.cpuset):
            return None
        pinning = _pin(1, by_threads[threads_per_core], cell.pcpuset)
        kept = _reserve(any_free, pinning, reserved, True)
        if not pinning:
            return None
    else:
        if policy == "require" and threads_per_core <= 1:
            return None
        threads = 1
        for threads, cores in sorted(by_threads.items(), reverse=True):
            if policy == "require" and threads <= 1:
                continue
            pinning = _pin(threads, cores, cell.pcpuset)
            kept = _reserve(any_free, pinning, reserved, False)
            if pinning is not None and not (reserved and not kept):
                break
        if policy != "require" and not pinning:
            cores = [frozenset((pcpu,)) for core in any_free for pcpu in sorted(core)]
            pinning = _pin(threads, cores, cell.pcpuset)
            kept = _reserve(cores, pinning, reserved, False)
    if pinning is None or (reserved and not kept):
        return None
    for vcpu, pcpu in pinning:
        if vcpu in cell.pcpuset:
            cell.cpu_pinning[vcpu] = pcpu
    cell.id = host_cell.id
    cell.cpuset_reserved = kept
    return cell


def _fit_cell(host_cell, cell, limits, reserved, why):
    """Fit one cell of the instance on one cell of the host; return it changed, or None with a reason in ``why``."""
    pins = cell.cpu_policy in ("dedicated", "mixed")
    shares = cell.cpu_policy in ("shared", "mixed", None)
    if cell.pagesize:
        size = _choose_page_size(host_cell, cell)
        if not size:
            why.append(
                "cell %s: %d MiB do not fit in free pages of the size asked for" % (host_cell.id, cell.memory_mb)
            )
            return None
        cell.pagesize = size
    elif host_cell.mempages:
        size = min(pages.size_kb for pages in host_cell.mempages)
        if not _can_fit_pages(host_cell, size, cell.memory_mb * 1024, use_free=pins):
            why.append("cell %s: %d MiB do not fit in its pages of %d KiB" % (host_cell.id, cell.memory_mb, size))
            return None
    elif (host_cell.avail_memory if pins else host_cell.memory_mb) < cell.memory_mb:
        why.append(
            "cell %s: needs %d MiB, %d of %d free"
            % (host_cell.id, cell.memory_mb, host_cell.avail_memory, host_cell.memory_mb)
        )
        return None
    if shares and len(cell.cpuset) > len(host_cell.cpuset):
        why.append("cell %s: needs %d shared CPUs, has %d" % (host_cell.id, len(cell.cpuset), len(host_cell.cpuset)))
        return None
    if pins:
        needed = len(cell.pcpuset) + reserved
        if needed > len(host_cell.free_pcpus):
            why.append("cell %s: needs %d CPUs to pin, %d free" % (host_cell.id, needed, len(host_cell.free_pcpus)))
            return None
        if _pack(host_cell, cell, reserved) is None:
            why.append(
                "cell %s: no pinning of %d CPUs with thread policy %s"
                % (host_cell.id, needed, cell.cpu_thread_policy or "prefer")
            )
            return None
    if shares and limits:
        usage, limit = host_cell.cpu_usage + len(cell.cpuset), len(host_cell.cpuset) * limits["cpu_allocation_ratio"]
        if usage > limit:
            why.append("cell %s: %d shared CPUs would be used, limit %g" % (host_cell.id, usage, limit))
            return None
        usage, limit = host_cell.memory_usage + cell.memory_mb, host_cell.memory_mb * limits["ram_allocation_ratio"]
        if usage > limit:
            why.append("cell %s: %d MiB would be used, limit %d" % (host_cell.id, usage, limit))
            return None
    cell.id = host_cell.id
    return cell


def _network_fits(host, chosen, network):
    """Whether the chosen cells are near the physical networks and tunnels that the instance needs."""
    needed = set(network.get("physnets") or ())
    for cell in chosen:
        if cell.network_metadata:
            needed -= set(cell.network_metadata.get("physnets") or ())
    for cell in host.cells:
        if cell.network_metadata and needed & set(cell.network_metadata.get("physnets") or ()):
            return False
    if network.get("tunneled"):
        if any(cell.network_metadata and cell.network_metadata.get("tunneled") for cell in chosen):
            return True
        return not any(cell.network_metadata and cell.network_metadata.get("tunneled") for cell in host.cells)
    return True


def _ordered(cells, instance, pools, pci_requests, packing):
    """The order in which host cells are tried where the host has more of them than the instance."""
    cells = sorted(cells, reverse=not packing, key=lambda cell: cell.avail_memory)
    if instance.cells[0].cpu_policy in (None, "shared"):
        cells = sorted(cells, reverse=packing, key=lambda cell: cell.cpu_usage)
    else:
        cells = sorted(cells, reverse=not packing, key=lambda cell: len(cell.free_pcpus))
    devices = {}
    for pool in pools:
        devices[pool["numa_node"]] = devices.get(pool["numa_node"], 0) + pool["count"]
    return sorted(cells, reverse=bool(pci_requests), key=lambda cell: devices.get(cell.id, 0))


def fit(host, instance, limits=None, pci_requests=(), pools=(), pci_supported=None, packing=False, why=None):
    """Fit an instance's topology on a host's: the fitted topology, or None (reasons are appended to ``why``).

    ``instance`` is changed in place, as in Nova: pass a copy. ``limits`` {cpu_allocation_ratio, ram_allocation_ratio,
    network_metadata}; ``pci_supported(cells)`` says whether the devices fit near these cells.
    """
    why = [] if why is None else why
    if len(host.cells) < len(instance.cells):
        why.append("needs %d NUMA cells, has %d" % (len(instance.cells), len(host.cells)))
        return None
    cells = host.cells
    if len(cells) > len(instance.cells):
        cells = _ordered(cells, instance, pools, pci_requests, packing)
    network = (limits or {}).get("network_metadata")
    isolated = instance.emulator_threads_policy == "isolate"
    fits, fits_not = set(), set()
    for candidates in itertools.permutations(cells, len(instance.cells)):
        chosen, chosen_host = [], []
        for host_cell, cell in zip(candidates, instance.cells):
            pair = (host_cell.id, cell.id)
            if pair in fits_not:
                break
            if pair in fits:
                cell.id = host_cell.id
            else:
                got = _fit_cell(host_cell, cell, limits, 1 if isolated and not chosen else 0, why)
                if got is None:
                    fits_not.add(pair)
                    break
                fits.add(pair)
            chosen_host.append(host_cell)
            chosen.append(cell)
        if len(chosen) != len(candidates):
            continue
        if pci_requests and pci_supported is not None and not pci_supported(chosen):
            why.append("the PCI devices are not near cells %s" % [cell.id for cell in chosen])
            continue
        if network and not _network_fits(host, chosen_host, network):
            why.append("cells %s are not near the networks asked for" % [cell.id for cell in chosen])
            continue
        return InstanceTopology([cell.copy() for cell in chosen], instance.emulator_threads_policy)
    return None
