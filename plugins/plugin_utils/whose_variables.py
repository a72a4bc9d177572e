# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose variables decide: each instance has its own catalog, and shared variables are the same in the whole inventory.
So the decision about an instance depends neither on which others are selected nor on which host decides.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Set, Tuple

from ansible.errors import AnsibleError
from ansible.parsing.vault import EncryptedString
from ansible.utils.vars import load_extra_vars

from ..module_utils.conductor import addressing
from ..module_utils.conductor.errors import SharedVariableDiffers
from ..module_utils.model import catalog_schema
from ..module_utils.model.catalog import Catalog
from ..module_utils.model.errors import BerthError
from .inventory_variables import INSTANCE, OWN_CATALOG, SHARED_CATALOG, raw_vars, variables
from .plain import plain

SHARED = (*SHARED_CATALOG, "berth_lost_hosts", "berth_strict_uniqueness", "berth_without_majority")
LOCALHOST = "localhost"

MOST_LEVELS = 100  # of lists and mappings in a variable that are looked through for templates


class Catalogs:
    """``run``: the rendered shared variables; ``shared``: their catalog; ``of(name)``: the catalog of an instance;
    ``given``: the names of the variables that -e sets for all of them."""

    def __init__(self, task_vars: Dict[str, Any], names: Iterable[str], kvm_hosts: Iterable[str], loader: Any):
        """``names``: the selected instances. Raises SharedVariableDiffers."""
        self._task_vars = task_vars
        self._known: List[Tuple[list, Catalog]] = []
        self.given = set(load_extra_vars(loader))
        self.instances = self._instances(list(names), set(kvm_hosts), self.given)
        self.run = self._shared(self.instances)
        self.shared = self._shared_catalog()

    def _shared_catalog(self) -> Catalog:
        try:
            return Catalog.from_variables({name: self.run[name] for name in SHARED_CATALOG if name in self.run})
        except BerthError:
            if self.instances:  # with what one of them has for itself, so that all faults are told at once
                self.of(self.instances[0])
            raise

    def of(self, name: str) -> Catalog:
        raw = self._raw_of(name)
        values = [raw.get(variable) for variable in OWN_CATALOG]
        for known, catalog in self._known:
            if all(ours is theirs or ours == theirs for ours, theirs in zip(values, known)):
                return catalog
        catalog = Catalog.from_variables({**self.run, **variables(self._task_vars, name, OWN_CATALOG)})
        if not any(map(is_rendered, values)):
            self._known.append((values, catalog))
        return catalog

    def flavors_of_run(self) -> Dict[str, Any]:
        """Those that localhost knows. Nothing else of its catalog is rendered: a host that no inventory names has no
        inventory_dir, which the path of an image may have."""
        return Catalog.from_variables({**self.run, **variables(self._task_vars, LOCALHOST, ["berth_flavors"])}).flavors

    def value(self, name: str, variable: str) -> Any:
        return value_of(self._task_vars, name, self._raw_of(name), variable)

    def _raw_of(self, name):
        return raw_vars(self._task_vars, name)

    def _instances(self, names: List[str], kvm_hosts: Set[str], extra_vars: Set[str]) -> List[str]:
        """All instances, those of the inventory first: in the same order whatever is selected."""
        marks = {"berth_flavor"}
        if marks & extra_vars:  # -e gives it to all hosts: other variables that are not for all mark an instance then
            marks = set(INSTANCE) - extra_vars - set(self._raw_of(LOCALHOST))
        known = [str(name) for name in self._task_vars["groups"]["all"]]
        found = [
            name
            for name in known
            if name not in kvm_hosts and name != LOCALHOST and not marks.isdisjoint(self._raw_of(name))
        ]
        return list(dict.fromkeys([*found, *names]))

    def _shared(self, instances: List[str]) -> Dict[str, Any]:
        if not instances:
            return variables(self._task_vars, LOCALHOST, SHARED)
        first = instances[0]
        found = variables(self._task_vars, first, SHARED)
        rendered = {variable for variable in SHARED if is_rendered(self._raw_of(first).get(variable))}
        local = self._raw_of(LOCALHOST)
        for variable in SHARED:
            # A variable of localhost alone would count only in runs without --limit.
            others = [*instances[1:], *([LOCALHOST] if variable in local else [])]
            for other in others:
                if not self._is_same(variable, first, other, found, variable in rendered):
                    raise SharedVariableDiffers.of(variable, first, other)
        return found

    def _is_same(self, variable, first, other, found, rendered) -> bool:
        if not rendered:
            ours, theirs = self._raw_of(first).get(variable), self._raw_of(other).get(variable)
            if ours is theirs or ours == theirs:
                return True
        theirs = variables(self._task_vars, other, [variable])
        return (found.get(variable) or None) == (theirs.get(variable) or None)


def value_of(task_vars: Dict[str, Any], name: str, raw: Mapping[str, Any], variable: str) -> Any:
    """One variable of the host; ``raw`` contains all, not rendered. Ansible collects all variables of a host again to
    render one, so only templates are rendered."""
    value = raw.get(variable)
    return variables(task_vars, name, [variable]).get(variable) if is_rendered(value) else plain(value, variable)


def is_rendered(value: Any, levels: int = MOST_LEVELS) -> bool:
    """Whether the value contains a template, so that the same text may mean different things for two hosts, or a part that
    Ansible Vault encrypted. Whoever renders what has more levels is told so."""
    if not levels:
        return True
    if isinstance(value, EncryptedString):
        return True
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, dict):
        return any(is_rendered(part, levels - 1) for pair in value.items() for part in pair)
    return isinstance(value, (list, tuple)) and any(is_rendered(part, levels - 1) for part in value)


def fixed_addresses(names, catalogs):
    """{address as model/nics.py writes it: {name: name}} of the instances ``names``."""
    owners = {}
    for name in names:
        try:
            value = catalogs.value(name, "berth_networks") or []
            own = catalog_schema.INSTANCE["berth_networks"].check(value, "berth_networks")
            fixed = addressing.fixed(own, catalogs.of(name).networks, name)
        except (BerthError, AnsibleError):
            continue  # an instance that is not selected here; a run that selects it reports the error
        for address, owner in fixed.items():
            owners.setdefault(address, owner)
    return owners
