# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hardware of a guest depends on, as its record keeps it, and whether a host has it: the machine type, and a UEFI
firmware that keeps its variables as the guest's are kept.

The build of the firmware does not count: it changes with every update of a host, and reads the variables of other builds
that have the same size and format. One word tells these: raw-540672-authenticated, qcow2-540672. Variables that no firmware has
formatted yet end with -blank.
"""

from __future__ import annotations

import fnmatch
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from .guest_settings import GuestSettings

KEY = "hardware"  # in the request
VARIABLES = r"(raw|qcow2)-[0-9]{1,12}(-(authenticated|plain|blank))?"  # such a word


class GuestNeeds(NamedTuple):
    """``machine`` and ``variables`` are None if the record does not say them, as before the first start."""

    machine: Optional[str]
    variables: Optional[str]
    secure_boot: bool

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> GuestNeeds:
        kept = hardware(spec)
        if not kept:
            return cls(None, None, False)
        return cls(kept.get("machine"), kept.get("variables"), GuestSettings.of(dict(spec)).secure_boot())

    def lacking(self, machine_types: Optional[List[str]], firmware: Optional[List[Dict[str, Any]]]) -> Optional[str]:
        """Why a host cannot run the guest, or None. ``firmware``: as compute/host/firmware.py tells it; a host that
        tells none may have one."""
        if self.machine and machine_types is not None and self.machine not in machine_types:
            return "has no machine type %s" % self.machine
        if not self.variables or not firmware:
            return None
        chosen = self.chosen(firmware)
        if chosen is None:
            return "has no UEFI firmware for %s%s" % (self.machine, " with secure boot" * self.secure_boot)
        if not fit(self.variables, chosen["variables"]):
            return "its UEFI firmware has variables of the form %s, the guest has %s" % (
                chosen["variables"],
                self.variables,
            )
        return None

    def chosen(self, firmware: List[Dict[str, Any]]) -> Optional[Dict[str, Any]]:
        """The one that libvirt takes: the first that fits the machine type and signatures."""
        for one in firmware:
            is_for = any(fnmatch.fnmatchcase(self.machine or "", machine) for machine in one["machines"])
            if one["secure_boot"] == self.secure_boot and (is_for or not self.machine):
                return one
        return None


def fit(variables: str, others: str) -> bool:
    """Whether a firmware with the one kind can use the other. What is not formatted yet gets the firmware's own form."""
    mine, theirs = variables.split("-"), others.split("-")
    if "blank" in (mine[-1], theirs[-1]):
        return mine[:2] == theirs[:2]
    return mine == theirs


def hardware(spec: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """What the request keeps, or None. A request that now asks for another machine type starts without it."""
    kept = spec.get(KEY)
    return kept if kept and kept.get("wished") == GuestSettings.of(dict(spec)).get("machine_type") else None
