# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fault of the catalog, told with the faults of instances, groups and options that are there whatever the catalog is."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterable, Iterator, List, Tuple

from ..module_utils.conductor import kept_entries, placing
from ..module_utils.conductor.fleet import Place
from ..module_utils.model.catalog import Catalog
from ..module_utils.model.errors import BerthError, InvalidInput, joined
from ..module_utils.model.errors_of_instances import of_several
from ..module_utils.model.identity import RESERVED
from ..module_utils.model.right_entries import RightEntries
from ..module_utils.placement.request import build_request
from . import berth_name
from .inventory_variables import CATALOG, INSTANCE, instances_among, variables
from .plain import plain

Places = Callable[[str, Dict[str, Any]], Iterable[Place]]  # (name, its variables) -> where the hosts have the instance
NEEDED = frozenset(("berth_flavor", "berth_image"))  # of an instance that only -e names; one that exists has them


@contextlib.contextmanager
def told_with_all(task_vars: Dict[str, Any], names: Iterable[str], places: Places) -> Iterator[None]:
    """``names``: the instances that the run is about."""
    try:
        yield
    except BerthError as error:
        beside = Beside(task_vars, places)
        wrong = list(beside.of_instances(names))
        raise joined([error, *beside.of_all(), *([of_several(wrong)] if wrong else [])]) from None


@contextlib.contextmanager
def told_with_values(task_vars: Dict[str, Any], names: Iterable[str], hosts: List[str]) -> Iterator[None]:
    """What is wrong with a command, with the wrong values in the catalog and in those of ``names`` that it is to make. Nobody
    knows yet what the hosts have, so a name that there is not may be of an instance that exists, and is told later."""
    try:
        yield
    except BerthError as error:
        beside = Beside(task_vars, lambda _name, _values: ())
        instances = [name for name in instances_among(task_vars, names) if name not in (*hosts, *RESERVED)]
        wrong = [(name, values) for name, told in beside.of_instances(instances) for values in _of_values(told, error)]
        raise joined([error, *beside.of_catalogs(), *([of_several(wrong)] if wrong else [])]) from None


def _of_values(told: BerthError, error: BerthError) -> List[BerthError]:
    """Those of the faults that are about values, but for the name where ``error`` is about that."""
    name = "inventory_hostname", error.value
    values = [
        each for each in (told, *told.also) if isinstance(each, InvalidInput) and (each.field, each.value) != name
    ]
    return [joined(values)] if values else []


class Beside:
    def __init__(self, task_vars: Dict[str, Any], places: Places) -> None:
        self._task_vars, self._places = task_vars, places
        self._known: List[Tuple[Dict[str, Any], RightEntries]] = []

    def of_all(self) -> Iterator[BerthError]:
        """What is wrong between the right entries and the inventory, as far as all instances see them."""
        for _given, entries in self._known[:1]:
            try:
                placing.aggregates_of(entries.catalog, plain(self._task_vars["groups"]), entries.catalog.placement)
            except BerthError as error:
                yield error

    def of_catalogs(self) -> Iterator[BerthError]:
        """What is wrong with the catalogs of the instances that were looked at."""
        told: Dict[str, BerthError] = {}
        for given, _entries in self._known:
            try:
                Catalog.from_variables(given)
            except BerthError as error:
                told.setdefault(str(error), error)
        return iter(told.values())

    def of_instances(self, names: Iterable[str]) -> Iterator[Tuple[str, BerthError]]:
        for name in names:
            told = self._of(name)
            if told:
                yield name, told

    def _of(self, name):
        entries = self._entries(name)
        try:
            values = {**variables(self._task_vars, name, INSTANCE), "inventory_hostname": name}
            if berth_name.is_only_requested(self._task_vars, name) and not NEEDED <= values.keys():
                return None
            build_request(values, kept_entries.with_kept(entries.catalog, values, self._places(name, values))[0])
        except BerthError as error:
            return entries.told(error)
        return None

    def _entries(self, name):
        given = {}
        for variable in CATALOG:
            try:
                given.update(variables(self._task_vars, name, [variable]))
            except BerthError:  # which is told, and nothing else is known of it
                given[variable] = ""
        for known, entries in self._known:
            if known == given:
                return entries
        self._known.append((given, RightEntries(given)))
        return self._known[-1][1]
