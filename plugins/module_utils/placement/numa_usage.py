# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What instances take from the NUMA cells of a host and give back. Not in numa.py: hosts count this without placing."""

from __future__ import annotations

from ..model.resources import HostTopology, Pages


class PinningInvalid(ValueError):
    """CPUs to pin that the cell does not have, or that are pinned already."""


def add_usage(host, instance):
    """Return a new HostTopology: the host's with a fitted instance on it; raises PinningInvalid."""
    cells = []
    for old in host.cells:
        new = old.copy()
        for cell in instance.cells:
            if cell.id == old.id:
                _add_cell(new, cell)
        new.memory_usage, new.cpu_usage = max(0, new.memory_usage), max(0, new.cpu_usage)
        cells.append(new)
    return HostTopology(cells)


def remove_usage(host, instance):
    """Return the host's topology without a fitted instance that was on it: the opposite of add_usage()."""
    cells = []
    for old in host.cells:
        new = old.copy()
        for cell in instance.cells:
            if cell.id == old.id:
                _remove_cell(new, cell)
        cells.append(new)
    return HostTopology(cells)


def _remove_cell(host_cell, cell):
    host_cell.mempages = _use_pages(host_cell, cell, -1)
    host_cell.memory_usage = max(0, host_cell.memory_usage - cell.memory_mb)
    host_cell.cpu_usage = max(0, host_cell.cpu_usage - len(cell.cpuset))
    host_cell.pinned_cpus -= _pinned_by(host_cell, cell)


def _use_pages(host_cell, cell, sign):
    """The pages of a host cell after an instance cell took them (sign 1), or gave them back (-1)."""
    size = cell.pagesize or min([pages.size_kb for pages in host_cell.mempages], default=None)
    return tuple(
        Pages(
            pages.size_kb,
            pages.total,
            max(0, int(pages.used + sign * (cell.memory_mb * 1024 / size))),
            pages.reserved,
        )
        if pages.size_kb == size
        else pages
        for pages in host_cell.mempages
    )


def _pinned_by(host_cell, cell):
    """Return the CPUs of the host cell that an instance cell occupies: whole cores if it isolates them."""
    if cell.cpu_policy in (None, "shared"):
        return frozenset()
    pinned = set(cell.cpu_pinning.values()) | cell.cpuset_reserved
    if cell.cpu_thread_policy == "isolate":
        pinned = {cpu for core in host_cell.siblings if core & pinned for cpu in core}
    return frozenset(pinned)


def _add_cell(host_cell, cell):
    host_cell.mempages = _use_pages(host_cell, cell, 1)
    host_cell.memory_usage += cell.memory_mb
    host_cell.cpu_usage += len(cell.cpuset)
    pinned = _pinned_by(host_cell, cell)
    if pinned - host_cell.pcpuset or pinned & host_cell.pinned_cpus:
        raise PinningInvalid("CPUs %s of cell %s cannot be pinned" % (sorted(pinned), host_cell.id))
    host_cell.pinned_cpus |= pinned
