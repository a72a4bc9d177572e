# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The product's HeadroomWeigher as a policy of a packing simulator.

``policy(cap, ctx)`` takes what has arrived so far as headroom_flavor_mix; ``running`` takes what runs, as the weigher
does by itself where the option is not set.
Both have ``choose(req, free, cap, ctx) -> host index``. ``req``,
``free`` and ``cap`` are arrays in (vCPU, memory GB[, a third resource]); ``ctx`` tells what has arrived so far
(``history()``), the hosts that fit (``feasible``) and, for pinned runs, the free capacity per cell (``cells``). The
third resource plays the part of the disk. Nothing is decided here: hosts become host states, the request a spec,
and the weigher weighs.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".cache" / "collections"))

from ansible_collections.berth.kvm.plugins.module_utils.model.host_state import HostState  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.request_spec import RequestSpec  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.placement.weighers.headroom import HeadroomWeigher  # noqa: E402

MIB_PER_GB = 1024


def amounts(row):
    """vCPUs, MiB, GiB of a row of the simulator."""
    values = [float(entry) for entry in row] + [0.0]
    return values[0], values[1] * MIB_PER_GB, values[2]


def host_document(index, cap, free, cells):
    vcpus, memory_mb, disk_gb = amounts(cap)
    left_vcpus, left_memory_mb, left_disk_gb = amounts(free)
    kind = "vcpus" if cells is None else "pcpus"
    document = {
        "host": "h%d" % index,
        kind: vcpus,
        kind + "_used": vcpus - left_vcpus,
        "memory_mb": memory_mb,
        "memory_mb_used": memory_mb - left_memory_mb,
        "local_gb": disk_gb,
        "local_gb_used": disk_gb - left_disk_gb,
        "cpu_allocation_ratio": 1.0,
        "reserved_host_memory_mb": 0,
    }
    if cells is not None:
        document["numa_topology"] = {
            "cells": [
                {"id": at, "pcpuset": list(range(round(cpus))), "memory_mb": memory * MIB_PER_GB}
                for at, (cpus, memory) in enumerate(cells)
            ]
        }
    return document


def request_document(req, pinned_cells):
    vcpus, memory_mb, disk_gb = amounts(req)
    document = {"flavor": {"vcpus": vcpus, "memory_mb": memory_mb, "root_gb": disk_gb}}
    if pinned_cells:
        extra_specs = {"hw:cpu_policy": "dedicated", "hw:numa_nodes": str(pinned_cells)}
        document["flavor"].update(vcpus=round(vcpus), memory_mb=round(memory_mb), extra_specs=extra_specs)
    return document


class policy:  # noqa: N801 (the name the simulator is given)
    def __init__(self, cap, ctx):
        self.states = {}
        self.version = None

    def choose(self, req, free, cap, ctx):
        self._refresh(req, ctx)
        states = [self._state(int(at), free, cap, ctx) for at in ctx.feasible]
        spec = RequestSpec(request_document(req, ctx.numa if ctx.cells is not None else 0))
        weights = self.weigher.weigh(states, spec)
        return int(ctx.feasible[max(range(len(weights)), key=weights.__getitem__)])

    def _refresh(self, req, ctx):
        sizes, shares = ctx.history()
        if self.version != ctx.version:
            self.version = ctx.version
            nodes = [0] * len(shares) if ctx.cells is None else ctx._numa
            self._set_mix(zip(sizes, nodes, shares))

    def _set_mix(self, mix):
        items = []
        for size, cells, share in mix:
            vcpus, memory_mb, disk_gb = amounts(size)
            item = {"vcpus": vcpus, "memory_mb": memory_mb, "disk_gb": disk_gb}
            items.append({**item, "numa_nodes": int(cells), "share": float(share)})
        self.weigher = HeadroomWeigher({"headroom_weight_multiplier": 1.0, "headroom_flavor_mix": items})

    def _state(self, at, free, cap, ctx):
        now = tuple(free[at].tolist())
        if self.states.get(at, (None,))[0] != now:
            cells = None if ctx.cells is None else ctx.cells[at].tolist()
            self.states[at] = (now, HostState.from_document(host_document(at, cap[at].tolist(), now, cells)))
        return self.states[at][1]


class running(policy):  # noqa: N801
    """The mix is tallied from what runs, anew whenever an eighth of it has changed."""

    def __init__(self, cap, ctx):
        super().__init__(cap, ctx)
        self.tally = Counter()
        self.changes, self.tallied = 0, None

    def _refresh(self, req, ctx):
        if self.tallied is None or self.changes > self.tallied / 8:
            self.changes, self.tallied = 0, sum(self.tally.values())
            alone = {(tuple(req.tolist()), self._nodes(ctx)): 1}
            self._set_mix((size, nodes, share) for (size, nodes), share in (self.tally or alone).items())

    @staticmethod
    def _nodes(ctx):
        return 0 if ctx.cells is None else ctx.numa

    def placed(self, host, req, ctx):
        self.tally[tuple(req.tolist()), self._nodes(ctx)] += 1
        self.changes += 1

    def removed(self, host, req, ctx):
        self.tally[tuple(req.tolist()), self._nodes(ctx)] -= 1
        self.tally += Counter()
        self.changes += 1
