# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host has the networks and the storage pool that an instance names, any free bytes in the pool, and what the
hardware of its guest needs.

Reads the host's document. A host that does not report what it has passes; its claim or build will decide.
"""

from __future__ import annotations

from typing import Any

from ..model import nics
from ..model.guest_settings import GuestNeeds
from ..model.pools import DIRECTORIES, DISK, disk_class, lacks_bytes
from ..model.request_spec import RequestSpec

FREE_BYTES = "free_bytes"  # of no host that passes this is said


class NetworksAndPool:
    """The networks and the pool that one request names, and the needs of the hardware that its guest has."""

    def __init__(self, spec: RequestSpec) -> None:
        self.pool = spec.pool
        self.guest = GuestNeeds.of(spec.document)
        self.wanted = tuple(dict.fromkeys(need for nic in spec.networks for need in nics.of_nic(nic)))

    def rules(self) -> list[list]:
        """Return [[rule, numbers]] for a host that passes."""
        found: list[list] = []
        if self.wanted:
            found.append(["networks", {"needs": [text for _key, _name, text in self.wanted]}])
        if self.pool:
            found.append(["pool", {"pool": self.pool}])
        if self.guest.machine:
            found.append(["hardware", {"machine": self.guest.machine, "variables": self.guest.variables}])
        return found

    def lacks(self, document: dict[str, Any]) -> dict[str, str]:
        """Return {rule: reason} for the rules that the host breaks."""
        found = {}
        missing = [
            text for key, name, text in self.wanted if document.get(key) is not None and name not in document[key]
        ]
        if missing:
            found["networks"] = "has no " + ", no ".join(missing)
        # Only a document with "pool" reports pools in the form that placement reads.
        if self.pool and document.get("pool") and document.get("pools") is not None:
            reason = _lacks_pool(document["pools"], self.pool)
            if reason:
                found["pool"] = reason
        full = lacks_bytes(document, self.pool)
        if full:
            found[FREE_BYTES] = full
        reason = self.guest.lacking(document.get("machine_types"), document.get("firmware"))
        if reason:
            found["hardware"] = reason
        return found


def _lacks_pool(pools: dict[str, Any], name: str) -> str | None:
    if name not in pools:
        return "has no active storage pool %s (active: %s)" % (name, ", ".join(sorted(pools)) or "none")
    if pools[name].get("type") not in DIRECTORIES:
        return "its storage pool %s is no directory but of type %s" % (name, pools[name].get("type"))
    return None


def counts_elsewhere(document: dict[str, Any], spec: RequestSpec) -> bool:
    """Whether the instance's disks count as another resource class than DISK_GB on this host."""
    return disk_class(document, spec.pool) != DISK
