# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Differences between the inventory and existing instances, for playbooks that only report them."""

from __future__ import annotations

import functools
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from ..module_utils.conductor import drift, kept_entries
from ..module_utils.conductor.fleet import Place
from ..module_utils.model.catalog import Catalog
from ..module_utils.model.errors import BerthError
from ..module_utils.model.lifecycle import OWN
from ..module_utils.model.messages import Document
from ..module_utils.placement.request import build_request
from . import berth_name
from .inventory_variables import INSTANCE, variables
from .selection import in_inventory
from .whose_variables import Catalogs


def owner(places: Iterable[Place]) -> Optional[Place]:
    """The place of an instance that exactly one host owns, otherwise None."""
    owners = [place for place in places if place["role"] == OWN]
    return owners[0] if len(owners) == 1 else None


def by_hand(name: str, places: Iterable[Place]) -> List[str]:
    """What somebody changed in libvirt's definition of the guest."""
    place = owner(places)
    difference = drift.of_domain(name, place["domain_differs"]) if place else None
    return [difference] if difference else []


class InventoryDifferences:
    """The requests of the instances in the inventory, compared with the instances on demand."""

    def __init__(self, task_vars: Dict[str, Any], names: Sequence[str], hosts: Iterable[str], loader: Any):
        self._task_vars, self._names, self._hosts, self._loader = task_vars, names, hosts, loader

    @functools.cached_property
    def catalogs(self) -> Catalogs:
        return Catalogs(self._task_vars, self._names, self._hosts, self._loader)

    def differences(self, name: str, places: Iterable[Place]) -> List[str]:
        """[] if not exactly one host owns the instance, or if the inventory is invalid, which create reports."""
        place = owner(places)
        wanted, kept = self._request(name, [place]) if place and in_inventory(self._task_vars, name) else (None, [])
        if not (place and wanted):
            return []
        unsaid = berth_name.unsaid(self._task_vars, name, variables(self._task_vars, name, INSTANCE))
        return [*drift.differences(name, place, drift.said({"spec": wanted, "unsaid": unsaid})), *kept]

    def request(self, name: str, places: Iterable[Place] = ()) -> Optional[Document]:
        """The request of an instance of the inventory, None if it is invalid. ``places``: where the hosts have it."""
        return self._request(name, places)[0]

    def _request(self, name: str, places: Iterable[Place]) -> Tuple[Optional[Document], List[str]]:
        try:
            catalog, values, kept = self._known(name, places)
            return build_request(values, catalog)[0], kept
        except BerthError:
            return None, []

    def checked(self, name: str, places: Iterable[Place]) -> Tuple[Document, Document]:
        """The request and the seed of an instance of the inventory; BerthError where it is invalid."""
        catalog, values, _kept = self._known(name, places)
        return build_request(values, catalog)

    def _known(self, name: str, places: Iterable[Place]) -> Tuple[Catalog, Dict[str, Any], List[str]]:
        values = {**variables(self._task_vars, name, INSTANCE), "inventory_hostname": name}
        catalog, kept = kept_entries.with_kept(self.catalogs.of(name), values, places)
        return catalog, values, kept

    def all_differences(self, name: str, places: Iterable[Place]) -> List[str]:
        """The same, and what somebody changed in libvirt's definition of the guest."""
        return [*self.differences(name, places), *by_hand(name, places)]
