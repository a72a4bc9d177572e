# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCIWeigher."""

from __future__ import annotations

from ..base import Weigher


class PCIWeigher(Weigher):
    """Keeps hosts with many free PCI devices for requests that need them: 100 - min(free devices, 99) for each.

    Normalised from the smallest to the largest.
    Options: pci_weight_multiplier (1.0, not negative).
    Aggregate metadata: pci_weight_multiplier.

    Source: nova.scheduler.weights.pci.PCIWeigher.
    """

    multiplier_option = "pci_weight_multiplier"

    def raw(self, host_state, spec):
        return 100 - min(sum(pool["count"] for pool in host_state.pci_stats), 99)
