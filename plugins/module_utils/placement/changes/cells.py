# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the NUMA cells of one host lack: CPUs to pin, memory, pages, shared CPUs, devices nearby."""

from __future__ import annotations

import itertools
import math

from ...model.resources import PAGES_ANY, PAGES_LARGE, PAGES_SMALL, HostTopology, InstanceTopology, Pages
from .. import capacity, numa_fit
from .devices import fix_devices

ASSIGNMENTS_TRIED = 60


def fix_cells(state, spec):
    """[(text, cost, step)] for the cells that lack least, or None; a step alters a host state."""
    host, wanted = state.numa_topology, spec.topology
    if host is None or wanted is None or len(host.cells) < len(wanted.cells):
        return None
    limits = capacity.numa_limits(state, spec)
    tries = itertools.permutations(host.cells, len(wanted.cells))
    plans = [_plan(cells, wanted, limits) for cells in itertools.islice(tries, ASSIGNMENTS_TRIED)]
    plans = [plan for plan in plans if plan is not None]
    if not plans:
        return None
    fixes, cells = min(plans, key=lambda plan: sum(cost for _text, cost, _step in plan[0]))
    return fixes or fix_devices(state, spec, cells)


def _plan(host_cells, wanted, limits):
    """([(text, cost, step)], host cells) of the instance's cells on these cells of the host in this order, or None."""
    fixes = []
    for number, (host_cell, cell) in enumerate(zip(host_cells, wanted.cells)):
        emulator = wanted.emulator_threads_policy if number == 0 else None
        lacks = _lacks(host_cell, cell, limits, emulator)
        if lacks is None:
            return None
        fixes += lacks
    return fixes, host_cells


def _lacks(host_cell, cell, limits, emulator):
    pins = cell.cpu_policy in ("dedicated", "mixed")
    shares = cell.cpu_policy != "dedicated"
    lacks = [_memory(host_cell, cell, pins)]
    if pins:
        lacks.append(_pins(host_cell, cell, emulator))
    if shares:
        lacks.append(_shared(host_cell, cell, limits))
    if None in lacks:
        return None
    return [fix for fixes in lacks for fix in fixes]


def _step(cell_id, change):
    """A step that gives a host state a topology in which ``change`` was made to a copy of one cell."""

    def step(state):
        cells = []
        for cell in state.numa_topology.cells:
            if cell.id == cell_id:
                cell = cell.copy()
                change(cell)
            cells.append(cell)
        state.numa_topology = HostTopology(cells)

    return step


def _memory(host_cell, cell, pins):
    if cell.pagesize or host_cell.mempages:
        return _pages(host_cell, cell, pins)
    have = host_cell.avail_memory if pins else host_cell.memory_mb
    short = cell.memory_mb - have
    if short <= 0:
        return []

    def change(changed_cell):
        changed_cell.memory_mb += short

    text = "%d more MiB in NUMA cell %d (%d free, %d needed)" % (short, host_cell.id, have, cell.memory_mb)
    return [(text, short / max(host_cell.memory_mb, 1), _step(host_cell.id, change))]


def _pages(host_cell, cell, pins):
    """The pages of the size that lacks least; None if no size of the host divides the cell's memory."""
    asked_kb, found = cell.memory_mb * 1024, []
    for pages in _choices(host_cell, cell.pagesize):
        if asked_kb % pages.size_kb == 0:
            free_kb = pages.free_kb if pins or cell.pagesize else pages.total_kb
            found.append((max(0, math.ceil((asked_kb - free_kb) / pages.size_kb)), free_kb, pages))
    if not found:
        return None
    short, free_kb, pages = min(found, key=lambda choice: choice[0] * choice[2].size_kb)
    if not short:
        return []
    size = pages.size_kb

    def change(changed_cell):
        have = [each for each in changed_cell.mempages if each.size_kb == size] or [Pages(size, 0)]
        more = Pages(size, have[0].total + short, have[0].used, have[0].reserved)
        changed_cell.mempages = (*(each for each in changed_cell.mempages if each.size_kb != size), more)

    text = "%d more pages of %d KiB in NUMA cell %d (%d free, %d needed)" % (
        short,
        size,
        host_cell.id,
        max(0, free_kb) // size,
        asked_kb // size,
    )
    return [(text, short * size / 1024 / max(host_cell.memory_mb, 1), _step(host_cell.id, change))]


def _choices(host_cell, pagesize):
    """Return the Pages that may serve; an empty one for a size that the cell does not have."""
    pages = sorted(host_cell.mempages, key=lambda page: page.size_kb)
    if pagesize in (None, PAGES_SMALL):
        return pages[:1]
    if pagesize == PAGES_LARGE:
        return pages[1:]
    if pagesize == PAGES_ANY:
        return pages
    return [page for page in pages if page.size_kb == pagesize] or [Pages(pagesize, 0)]


def _pins(host_cell, cell, emulator):
    """Pinned CPUs to be freed, whole cores first; None if the cell would be too small with all of them free."""
    cores = sorted(
        (sorted(core & host_cell.pinned_cpus & host_cell.pcpuset) for core in host_cell.siblings),
        key=lambda core: (len(core), core),
    )
    order = [cpu for core in cores for cpu in core]
    needed = len(cell.pcpuset) + (1 if emulator == "isolate" else 0)
    for number in range(max(0, needed - len(host_cell.free_pcpus)), len(order) + 1):
        freed = host_cell.copy()
        freed.pinned_cpus -= set(order[:number])
        if _can_pin(freed, cell, emulator):
            break
    else:
        return None
    if not number:
        return []

    def change(changed_cell):
        changed_cell.pinned_cpus -= set(order[:number])

    text = "%d more free CPUs to pin in NUMA cell %d (%d free, %d needed%s)" % (
        number,
        host_cell.id,
        len(host_cell.free_pcpus),
        needed,
        ", thread policy %s" % cell.cpu_thread_policy if cell.cpu_thread_policy else "",
    )
    return [(text, number / max(len(host_cell.pcpuset), 1), _step(host_cell.id, change))]


def _can_pin(host_cell, cell, emulator):
    """Whether the CPUs alone fit, by the rules of placement itself."""
    asked, offered = cell.copy(), host_cell.copy()
    asked.memory_mb, asked.pagesize, asked.cpuset, offered.mempages = 0, None, frozenset(), ()
    return numa_fit.fit(HostTopology([offered]), InstanceTopology([asked], emulator)) is not None


def _shared(host_cell, cell, limits):
    """Shared CPUs and memory of the cell to be freed; None if the cell has too few CPUs in all."""
    if len(cell.cpuset) > len(host_cell.cpuset):
        return None
    found = []
    for attribute, asked, size, ratio, what in (
        ("cpu_usage", len(cell.cpuset), len(host_cell.cpuset), "cpu_allocation_ratio", "shared CPUs"),
        ("memory_usage", cell.memory_mb, host_cell.memory_mb, "ram_allocation_ratio", "MiB"),
    ):
        used, limit = getattr(host_cell, attribute), size * limits[ratio]
        short = math.ceil(used + asked - limit)
        if short > 0:

            def change(changed_cell, attribute=attribute, short=short):
                setattr(changed_cell, attribute, getattr(changed_cell, attribute) - short)

            numbers = (short, what, host_cell.id, limit - used, asked, ratio, limits[ratio])
            text = "%d fewer %s in use in NUMA cell %d (%d free, %d needed at %s %g)" % numbers
            found.append((text, short / max(limit, 1), _step(host_cell.id, change)))
    return found
