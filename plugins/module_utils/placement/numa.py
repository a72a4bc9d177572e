# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NUMA: what a flavor and image ask for, by the rules of nova.virt.hardware, and whether and how it fits on the cells of
a host. Sizes: memory in MiB, pages in KiB.
"""

from __future__ import annotations

import itertools
import math
import re

from ..model.cpu_list import parse_cpu_spec, parse_mask
from ..model.errors import InvalidInput
from ..model.guest_settings import GuestSettings
from ..model.resources import PAGES_ANY, PAGES_LARGE, PAGES_SMALL, InstanceCell, InstanceTopology
from . import features
from .features import both

CPU_POLICIES = ("dedicated", "shared", "mixed")
THREAD_POLICIES = ("prefer", "isolate", "require")
EMULATOR_POLICIES = ("share", "isolate")
PCI_POLICIES = ("required", "legacy", "preferred", "socket")
_PREFIXES = "KMGTPEZYRQ"
_SIZE = re.compile(r"(\d*\.?\d+)(?:([%s])i?)?(b|bit|B)\Z" % _PREFIXES, re.ASCII)


def _check_word(field, value, words):
    if value and value not in words:
        raise InvalidInput(field, value, "one of " + ", ".join(words))


def cpu_policy(flavor, props):
    """shared, dedicated, mixed or None. The flavor decides; an image must not ask for more than the flavor gives."""
    in_flavor, in_image = both(flavor, props, "cpu_policy")
    _check_word("hw:cpu_policy", in_flavor, CPU_POLICIES)
    _check_word("hw_cpu_policy", in_image, CPU_POLICIES)
    forbidden = {"mixed": ("dedicated",), "shared": ("mixed", "dedicated")}.get(in_flavor, ())
    if in_image in forbidden:
        raise InvalidInput("hw_cpu_policy", in_image, "not allowed with hw:cpu_policy=%s in the flavor" % in_flavor)
    return in_flavor or in_image


def cpu_thread_policy(flavor, props):
    """prefer, isolate, require or None."""
    in_flavor, in_image = both(flavor, props, "cpu_thread_policy")
    _check_word("hw:cpu_thread_policy", in_flavor, THREAD_POLICIES)
    _check_word("hw_cpu_thread_policy", in_image, THREAD_POLICIES)
    if in_flavor in (None, "prefer"):
        return in_flavor or in_image
    if in_image and in_image != in_flavor:
        raise InvalidInput(
            "hw_cpu_thread_policy", in_image, "not allowed with hw:cpu_thread_policy=%s in the flavor" % in_flavor
        )
    return in_flavor


def emulator_threads_policy(flavor):
    policy = flavor.extra_specs.get("hw:emulator_threads_policy")
    _check_word("hw:emulator_threads_policy", policy, EMULATOR_POLICIES)
    return policy or None


def pci_numa_policy(flavor, props):
    in_flavor, in_image = both(flavor, props, "pci_numa_affinity_policy")
    if in_flavor and in_image and in_flavor != in_image:
        raise InvalidInput("hw_pci_numa_affinity_policy", in_image, "the flavor says %s" % in_flavor)
    _check_word("hw:pci_numa_affinity_policy", in_flavor or in_image, PCI_POLICIES)
    return in_flavor or in_image


def dedicated_cpus(flavor):
    """The vCPUs that hw:cpu_dedicated_mask pins, or None."""
    mask = flavor.extra_specs.get("hw:cpu_dedicated_mask")
    if not mask:
        return None
    pinned, every = parse_mask(mask, flavor.vcpus, "hw:cpu_dedicated_mask"), set(range(flavor.vcpus))
    if not pinned or not every - pinned or not pinned <= every:
        raise InvalidInput("hw:cpu_dedicated_mask", mask, "some, but not all, of the flavor's %d vCPUs" % flavor.vcpus)
    return pinned


def realtime_cpus(flavor, props):
    """The vCPUs that run in real time, or None."""
    return GuestSettings(flavor.extra_specs, props).realtime_cpus(flavor.vcpus)


def _read_page_size(text):
    """Return the KiB (a fraction below 1) of a size such as 2048, 2MB or 1.5GiB, or the PAGES_* of Nova's word."""
    size_class = {"any": PAGES_ANY, "large": PAGES_LARGE, "small": PAGES_SMALL}.get(text)
    if size_class is not None:
        return size_class
    if re.fullmatch("[0-9]+", text):  # no other digits, such as superscripts
        return int(text)
    match = _SIZE.match(text)
    if not match:
        raise InvalidInput(
            "hw:mem_page_size", text, "small, large, any, a number of KiB, or a size such as 2MB or 1GiB"
        )
    number, prefix, unit = match.groups()
    size = float(number) * 1024 ** (_PREFIXES.index(prefix) + 1 if prefix else 0)
    return math.ceil(size if unit == "B" else size / 8) / 1024


def page_size(flavor, props):
    """KiB, or PAGES_SMALL, PAGES_LARGE, PAGES_ANY, or None if nothing is requested."""
    in_flavor, in_image = both(flavor, props, "mem_page_size")
    if not in_flavor and in_image:
        raise InvalidInput("hw_mem_page_size", in_image, "the flavor must allow it by hw:mem_page_size=any or large")
    if not in_flavor:
        return None
    size = _read_page_size(in_flavor)
    if in_image and size not in (PAGES_ANY, PAGES_LARGE):
        raise InvalidInput(
            "hw_mem_page_size", in_image, "not allowed with hw:mem_page_size=%s in the flavor" % in_flavor
        )
    return _read_page_size(in_image) if in_image else size


def _asked_cpus(flavor):
    """(VCPU, PCPU) that the flavor asks for by resource class."""
    found = {"VCPU": 0, "PCPU": 0}
    for key, value in flavor.extra_specs.items():
        match = re.match(r"resources(?:[1-9][0-9]*)?:(VCPU|PCPU)", key)
        if match and re.match(r"\s*[+-]?\d+\s*\Z", value):
            found[match.group(1)] += int(value)
    return found["VCPU"], found["PCPU"]


def _hyperthreading_trait(flavor, props):
    for key, value in flavor.extra_specs.items():
        if re.match(r"trait(?:[1-9][0-9]*)?:HW_CPU_HYPERTHREADING", key):
            return value
    return "required" if "HW_CPU_HYPERTHREADING" in props.get("traits_required", ()) else None


def vpmems(flavor):
    return [part.strip() for part in flavor.extra_specs.get("hw:pmem", "").split(",") if part.strip()]


def _numbered(flavor, key, read):
    found = []
    while "%s.%d" % (key, len(found)) in flavor.extra_specs:
        text = flavor.extra_specs["%s.%d" % (key, len(found))]
        try:
            found.append(read(text))
        except ValueError:
            raise InvalidInput("%s.%d" % (key, len(found)), text, "a whole number of MiB")
    return found or None


def _list_of(flavor, props, key, read):
    in_flavor, in_image = _numbered(flavor, "hw:" + key, read), props.get("hw_" + key)
    if in_flavor is not None and in_image is not None:
        raise InvalidInput("hw_" + key, in_image, "the flavor has it already")
    return in_image if in_flavor is None else in_flavor


def constraints(flavor, props):
    """Return the NUMA topology that a flavor and the known properties of an image ask for, or None.

    hw:numa_nodes, hw:mem_page_size, hw:pmem and the dedicated and mixed CPU policies ask for one; raises InvalidInput
    for contradictions (source: nova.virt.hardware.numa_get_constraints).
    """
    policy = cpu_policy(flavor, props)
    threads = cpu_thread_policy(flavor, props)
    realtime = realtime_cpus(flavor, props)
    dedicated = dedicated_cpus(flavor)
    emulator = emulator_threads_policy(flavor)
    asked_vcpus, asked_pcpus = _asked_cpus(flavor)
    if policy and (asked_vcpus or asked_pcpus):
        raise InvalidInput("hw:cpu_policy", policy, "not together with resources:VCPU or resources:PCPU")
    if asked_vcpus and asked_pcpus:
        raise InvalidInput("resources:PCPU", asked_pcpus, "not together with resources:VCPU")
    if asked_pcpus:
        if asked_pcpus != flavor.vcpus + (1 if emulator == "isolate" else 0):
            raise InvalidInput(
                "resources:PCPU", asked_pcpus, "the flavor's vCPUs, and one more for isolated emulator threads"
            )
        policy = "dedicated"
    if asked_vcpus:
        policy = "shared"
    trait = _hyperthreading_trait(flavor, props)
    if threads and trait:
        raise InvalidInput("hw:cpu_thread_policy", threads, "not together with trait:HW_CPU_HYPERTHREADING")
    threads = {"forbidden": "isolate", "required": "require"}.get(trait, threads)
    _check_combination(policy, threads, emulator, dedicated, realtime)
    if policy == "mixed":
        dedicated = dedicated or realtime
    nodes = _node_count(flavor, props)
    size = page_size(flavor, props)
    features.locked_memory(flavor, props)
    pinned = set(range(flavor.vcpus)) if policy == "dedicated" else dedicated or set()
    if not (nodes or size or vpmems(flavor) or policy in ("dedicated", "mixed")):
        return None
    cells = _cells(flavor, props, nodes or 1, set(range(flavor.vcpus)) - pinned, pinned)
    for cell in cells:
        cell.pagesize = None if size is None else int(size)
        cell.cpu_policy, cell.cpu_thread_policy = policy, threads
    return InstanceTopology(cells, emulator)


def _check_combination(policy, threads, emulator, dedicated, realtime):
    if policy in ("shared", None):
        for field, value in (
            ("hw:cpu_thread_policy", threads),
            ("hw:emulator_threads_policy", emulator if emulator == "isolate" else None),
            ("hw:cpu_dedicated_mask", dedicated),
            ("hw:cpu_realtime", realtime),
        ):
            if value:
                raise InvalidInput(field, value, "needs hw:cpu_policy=dedicated or mixed")
    elif policy == "dedicated" and dedicated:
        raise InvalidInput("hw:cpu_dedicated_mask", sorted(dedicated), "needs hw:cpu_policy=mixed")
    elif policy == "mixed" and bool(dedicated) == bool(realtime):
        raise InvalidInput("hw:cpu_policy", policy, "needs either hw:cpu_dedicated_mask or a realtime mask")


def _node_count(flavor, props):
    in_flavor, in_image = both(flavor, props, "numa_nodes")
    if in_flavor and in_image:
        raise InvalidInput("hw_numa_nodes", in_image, "the flavor has hw:numa_nodes=%s" % in_flavor)
    nodes = in_flavor or in_image
    if nodes is None or nodes == "":
        return None
    if not re.fullmatch("[1-9][0-9]*", str(nodes)):
        raise InvalidInput("hw:numa_nodes", nodes, "a whole number from 1")
    return int(nodes)


def _cells(flavor, props, nodes, shared, pinned):
    cpu_list = _list_of(flavor, props, "numa_cpus", parse_cpu_spec)
    mem_list = _list_of(flavor, props, "numa_mem", int)
    if cpu_list is None and mem_list is None:
        if flavor.vcpus % nodes or flavor.memory_mb % nodes:
            raise InvalidInput("hw:numa_nodes", nodes, "a divisor of the flavor's vCPUs and memory")
        per_cpu = flavor.vcpus // nodes
        cpu_list = [set(range(node * per_cpu, (node + 1) * per_cpu)) for node in range(nodes)]
        mem_list = [flavor.memory_mb // nodes] * nodes
    elif cpu_list is None or mem_list is None or len(cpu_list) != nodes or len(mem_list) != nodes:
        raise InvalidInput("hw:numa_cpus", cpu_list, "one hw:numa_cpus.N and one hw:numa_mem.N per node")
    every = [cpu for cpus in cpu_list for cpu in cpus]
    if sorted(every) != list(range(flavor.vcpus)):
        raise InvalidInput(
            "hw:numa_cpus", sorted(every), "each of the flavor's %d vCPUs in exactly one node" % flavor.vcpus
        )
    if sum(mem_list) != flavor.memory_mb:
        raise InvalidInput("hw:numa_mem", mem_list, "%d MiB in all, the flavor's memory" % flavor.memory_mb)
    return [
        InstanceCell({"id": node, "cpuset": cpus & shared, "pcpuset": cpus & pinned, "memory_mb": memory})
        for node, (cpus, memory) in enumerate(zip(cpu_list, mem_list))
    ]


# NUMA: whether and how the topology that an instance asks for fits on the cells of a host.
#
# The rules are those of nova.virt.hardware, including the order in which cells are tried, so that the same cells are
# chosen. Sizes: memory in MiB, pages in KiB.


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
