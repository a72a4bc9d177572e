# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which KVM hosts a playbook about hosts is about: those of --limit, and those for which berth_where_hosts holds, a query in
JMESPath over what placement knows of each."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

from ..module_utils.model import input_hints
from ..module_utils.model.catalog import Catalog
from ..module_utils.model.errors import InvalidInput, shortened
from ..module_utils.model.host_state import Aggregate
from ..module_utils.model.messages import Document
from ..module_utils.placement.filters.query import document_of, host_form
from ..module_utils.placement.jmespath_query import Query
from ..module_utils.placement.scheduler import host_states
from .plain import plain
from .screen import say
from .selection import hosts_selected

VARIABLE = "berth_where_hosts"
DECISIONS = ("show_fleet", "maintain_host", "plan_maintenance", "rolling_reboot")  # of the playbooks that evaluate it


def check(action: Any, task_vars: Dict[str, Any]) -> None:
    """Raise InvalidInput, before any host is asked, for a query that cannot be meant, or that this playbook would ignore."""
    if VARIABLE not in task_vars:
        return
    query = _query(action, task_vars)
    if task_vars.get("__berth_decision") not in DECISIONS:
        rule = "a selection for the playbooks hosts, host_facts, drain and rolling_reboot"
        raise InvalidInput(VARIABLE, query.text, rule, hint=input_hints.where_in_playbooks())


def selected(action: Any, task_vars: Dict[str, Any], documents: Mapping[str, Document]) -> List[str]:
    """The names of the hosts for which the query holds; all if there is none. That it holds for none is said."""
    found = _holding(action, task_vars, documents)
    if VARIABLE in task_vars and documents and not found:
        query = _query(action, task_vars)
        known = query.among(_asked(action, task_vars, query, documents).values())
        say("", "%s=%s selects none of %d hosts%s" % (VARIABLE, query.text, len(documents), known))
    return found


def _holding(action: Any, task_vars: Dict[str, Any], documents: Mapping[str, Document]) -> List[str]:
    if VARIABLE not in task_vars:
        return list(documents)
    query = _query(action, task_vars)
    asked = _asked(action, task_vars, query, documents)
    return [name for name, document in asked.items() if query.holds(document)]


def _asked(
    action: Any, task_vars: Dict[str, Any], query: Query, documents: Mapping[str, Document]
) -> Dict[str, Document]:
    """Host -> what the query is about."""
    catalog = Catalog.from_variables(action.own_variables(task_vars, ["berth_aggregates"]))
    aggregates = [Aggregate(each) for each in catalog.aggregate_documents(plain(task_vars["groups"]))]
    states = zip(documents, host_states(documents.values(), aggregates))
    return {name: document_of(query.names, state) for name, state in states}


def shown(action: Any, task_vars: Dict[str, Any], documents: Mapping[str, Document]) -> List[str]:
    """The names of the hosts that a table shows. Raises KvmHostNotFound for a limit without a KVM host."""
    found = selected(action, task_vars, documents)
    if "ansible_limit" not in task_vars:
        return found
    limited = set(hosts_selected(task_vars, list(documents)))
    return [name for name in found if name in limited]


def one(action: Any, task_vars: Dict[str, Any], documents: Mapping[str, Document]) -> str:
    """The only host for which the query holds. Raises InvalidInput."""
    found = _holding(action, task_vars, documents)
    if len(found) != 1:
        rule = "a query that selects one host; it selects %s" % (shortened(found) if found else "none")
        raise InvalidInput(VARIABLE, task_vars[VARIABLE], rule, hint=input_hints.give_host("berth_kvm_host"))
    return found[0]


def _query(action: Any, task_vars: Dict[str, Any]) -> Query:
    return Query(action.own_variables(task_vars, [VARIABLE])[VARIABLE], VARIABLE, host_form())
