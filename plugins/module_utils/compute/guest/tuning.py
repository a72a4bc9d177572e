# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Places the CPUs and the memory of a guest on its host, as its claim set them aside, cell by cell."""

from __future__ import annotations

from ...model.image import is_true
from .elements import child, ranges

PRIORITY = 1  # of real-time vCPUs, like Nova's realtime_scheduler_priority


def memory_backing(root, cells, settings, realtime):
    """Use huge pages, which are never swapped, as allocated. Lock memory if that is requested or follows: a real-time
    vCPU must not wait for a page, and encrypted memory cannot be moved."""
    pages = [(index, cell["pagesize"]) for index, cell in enumerate(cells) if (cell.get("pagesize") or 0) > 4]
    locked = is_true(settings.get("locked_memory", "false")) or settings.encrypts_memory() or realtime
    if not (pages or locked):
        return
    backing = child(root, "memoryBacking")
    if locked:
        child(backing, "locked")
    if pages:
        huge = child(backing, "hugepages")
        for index, size in pages:
            child(huge, "page", size=size, unit="KiB", nodeset=index)
    if realtime:
        child(backing, "nosharepages")


def pinning(root, cells, realtime):
    """Write cputune and numatune: guest cell i is bound to the host cell of the allocation."""
    if not cells:
        return
    tune = child(root, "cputune")
    pins, reserved = {}, set()
    for cell in cells:
        reserved.update(cell.get("cpuset_reserved") or ())  # hw:emulator_threads_policy=isolate
        pins.update((int(vcpu), cpu) for vcpu, cpu in (cell.get("cpu_pinning") or {}).items())
    for vcpu, cpu in sorted(pins.items()):
        child(tune, "vcpupin", vcpu=vcpu, cpuset=ranges([cpu]))
    if pins:
        # the emulator's threads would stop a real-time vCPU on the same CPU
        others = {cpu for vcpu, cpu in pins.items() if vcpu not in realtime} or set(pins.values())
        child(tune, "emulatorpin", cpuset=ranges(reserved or others))
    else:
        root.remove(tune)
    if realtime:
        child(tune, "vcpusched", vcpus=ranges(realtime), scheduler="fifo", priority=PRIORITY)
    numa = child(root, "numatune")
    child(numa, "memory", mode="strict", nodeset=ranges(cell["id"] for cell in cells))
    for index, cell in enumerate(cells):
        child(numa, "memnode", cellid=index, mode="strict", nodeset=cell["id"])
