# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The right entries of a catalog that has wrong ones: what is wrong with an instance is told beside what is wrong with those."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, List, Mapping, Optional, Set, Tuple

from .catalog import Catalog
from .errors import BerthError, joined
from .unknown_names import UnknownName

VARIABLES = {
    "flavor": "berth_flavors",
    "image": "berth_images",
    "key pair": "berth_keypairs_defined",
    "network": "berth_networks_defined",
    "security group": "berth_security_groups_defined",
    "server group": "berth_server_groups",
    "volume": "berth_volumes_defined",
}  # the zones are in no variable by their names
ZONES = "berth_aggregates"
ALIAS = "pci_passthrough:alias"  # the extra spec that names an entry of berth_pci_aliases


class RightEntries:
    """``catalog``: the entries of ``variables`` that are right by themselves."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self._names: Dict[str, Set[str]] = {}  # of all entries of each variable that has wrong ones
        right: Dict[str, Any] = {}
        for variable, value in variables.items():
            if _is_right({variable: value}):
                right[variable] = value
            else:
                pairs = _pairs(value)
                self._names[variable] = {name for name, _entry in pairs}
                right[variable] = {name: entry for name, entry in pairs if _is_right({variable: {name: entry}})}
        self._right = right
        self.catalog = Catalog.from_variables(right)

    def told(self, error: BerthError) -> Optional[BerthError]:
        """What of an ``error`` by this catalog is so whatever the wrong entries are to be; None if nothing is."""
        found, error.also = [error, *error.also], []
        faults = [fault for each in found for fault in self._told(each)]
        return joined(faults) if faults else None

    def _told(self, fault: BerthError) -> List[BerthError]:
        if fault.field == ALIAS and fault.value in map(repr, self._names.get("berth_pci_aliases", ())):
            return []
        variable = VARIABLES.get(fault.kind, ZONES) if isinstance(fault, UnknownName) else ""
        if variable not in self._names or fault.value in self._right[variable]:
            return [fault]
        names = self._names[variable]
        if not names or fault.value in names or variable == ZONES:
            return []
        return [type(fault).named(str(fault.field), fault.value, names)]  # type: ignore[attr-defined]


def _is_right(variables: Mapping[str, Any]) -> bool:
    with contextlib.suppress(BerthError):
        return bool(Catalog.from_variables(variables))
    return False


def _pairs(value: Any) -> List[Tuple[str, Any]]:
    """The entries by their names, which a list has in them."""
    if isinstance(value, dict):
        return [(str(name), entry) for name, entry in value.items()]
    return [(str(entry["name"]), entry) for entry in value if "name" in entry] if _is_list_of_mappings(value) else []


def _is_list_of_mappings(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(entry, dict) for entry in value)
