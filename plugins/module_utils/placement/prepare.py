# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Derives a request's NUMA topology and PCI requests from its flavor and image, where its document has none."""

from __future__ import annotations

from ..model.resources import InstanceTopology
from . import numa, pci


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
