# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims more disk room for an existing instance."""

from __future__ import annotations

from ...model.request_spec import RequestSpec
from ...placement import capacity
from .ledger import Ledger


def allocate(host, record, more_gb):
    """Return what ``more_gb`` takes here, requested alone. The caller holds the host's lock until that is written."""
    nothing = {"name": "", "vcpus": 0, "memory_mb": 0}
    data = [{"name": "more", "size_gb": more_gb, "bus": "virtio"}]
    request = RequestSpec({"uuid": record.uuid, "flavor": nothing, "pool": record.spec.get("pool"), "disks": data})
    return capacity.allocate(Ledger(host).state, request)
