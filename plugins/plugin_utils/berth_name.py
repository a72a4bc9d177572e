# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""berth_name, an instance that no inventory has to describe: one name, which may stand for several (berth_count)."""

from __future__ import annotations

import re
from typing import Any, Collection, Dict, List, Mapping, Optional, Sequence, Set

from ansible import context

from ..module_utils.conductor.closing_table import Outcome
from ..module_utils.conductor.unlisted import selected
from ..module_utils.model import clone_hints, fleet_hints, identity, input_hints
from ..module_utils.model.errors import InvalidInput, joined
from ..module_utils.model.identity import ADOPTED, OWN_UUIDS
from ..module_utils.model.unknown_names import meant
from .inventory_variables import raw_vars

# Part of a request -> the options of -e that say it.
SAID_BY = {
    "image": ("berth_image",),
    "networks": ("berth_networks",),
    "metadata": ("berth_metadata",),
    "ssh_keys_digest": ("berth_ssh_keys", "berth_key_names"),
    "group": ("berth_server_group",),
    "disks": ("berth_disks",),
}
COUNTS = ("berth_name", "berth_count", "berth_min_count")
MOST_AT_ONCE = 1000
CLONES, NEW_NAME = "__berth_clones", "berth_new_name"  # playbooks/clone.yml says the first
GROUP = "berth_requested"  # playbooks/internal/read_requested.yml adds the instances to it
PATTERN = re.compile(r"[\s,:;!&*?\[\]{}]")  # characters in no name; playbooks/internal/read_requested.yml has it too


def check_counts(values: Dict[str, Any]) -> None:
    """Check how many instances berth_name stands for: without it berth_count would be about the whole inventory."""
    count = _count(values)
    if not re.fullmatch("[0-9]{1,4}", str(count)) or not 1 <= int(count) <= MOST_AT_ONCE:
        raise InvalidInput("berth_count", count, "a whole number from 1 to %d" % MOST_AT_ONCE)
    least = count if values.get("berth_min_count") in (None, "") else values["berth_min_count"]
    if not re.fullmatch("[0-9]{1,4}", str(least)) or not 1 <= int(least) <= int(count):
        raise InvalidInput("berth_min_count", least, "a whole number from 1 to berth_count, %s" % count)
    if "berth_name" not in values and str(count) != "1":
        hint = fleet_hints.name_the_counted()
        raise InvalidInput("berth_count", count, "how many instances berth_name stands for", hint=hint)


def _count(values: Mapping[str, Any]) -> Any:
    """berth_count; an empty text is a survey's question without an answer."""
    return 1 if values.get("berth_count") in (None, "") else values["berth_count"]


def check_given(task_vars: Mapping[str, Any], extra_vars: Mapping[str, Any], variable: str) -> None:
    """Check that the variable, if there is one, is of -e: Ansible has no other when it chooses what a playbook imports."""
    if variable in task_vars and variable not in extra_vars:
        hint = fleet_hints.give_with_e(variable)
        raise InvalidInput(variable, task_vars[variable], "a variable of the command line", hint=hint)


def check_adopted(extra_vars: Mapping[str, Any]) -> None:
    """Check that a uuid that does not follow from a name is that of one instance: -e gives it to all."""
    for field in OWN_UUIDS:
        if extra_vars.get(field) and ("berth_name" not in extra_vars or str(_count(extra_vars)) != "1"):
            raise InvalidInput(field, extra_vars[field], "with -e only beside berth_name, for one instance")


def check_clone(task_vars: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Check that a run of playbook clone names the two instances, and nothing that would select others."""
    if CLONES not in task_vars:
        return
    errors = [
        InvalidInput(each, values.get(each), "the name of one instance")
        for each in (COUNTS[0], NEW_NAME)
        if values.get(each) in (None, "") or PATTERN.search(str(values[each]))
    ]
    given = {"--limit": task_vars.get("ansible_limit"), "berth_count": values.get("berth_count")}
    errors += [
        InvalidInput(each, value, "nothing here: one instance is copied")
        for each, value in given.items()
        if value not in (None, "")
    ]
    if errors:
        errors[-1].hint = clone_hints.name_clone()  # once, after all of them
        raise joined(errors)


def check_group(values: Mapping[str, Any], groups: Mapping[str, Sequence[str]]) -> None:
    """Check that the group of the requested instances has no others: a delete would delete those of the inventory too."""
    members = groups.get(GROUP, ())
    if "berth_name" in values and len(members) > int(_count(values)):
        raise InvalidInput(
            "group %s" % GROUP, sorted(members), "only what berth_name stands for, no host of the inventory"
        )


def check_name(values: Dict[str, Any], hosts: Collection[str] = (), known: Collection[str] = ()) -> None:
    """Check that berth_name is one name: Ansible would take a pattern or list for other hosts, or fail on it. That of one of
    ``hosts``, the KVM hosts, is told as that where it is looked up. ``known``: all names of the inventory."""
    if "berth_name" not in values:
        return
    name = values["berth_name"]
    if name in (None, ""):  # as AWX passes on a survey's question without an answer
        raise InvalidInput("berth_name", name, "the name of one instance", hint=input_hints.name_instance())
    given = [str(text).partition("=")[0].strip() for text in context.CLIARGS.get("extra_vars") or ()]
    if PATTERN.search(str(name)) or given.count("berth_name") > 1:  # of which Ansible keeps the last
        raise InvalidInput("berth_name", name, "the name of one instance", hint=fleet_hints.select_several())
    if name not in hosts:
        _check_form(str(name), known)


def _check_form(name: str, known: Collection[str]) -> None:
    try:
        identity.check_name(name, "berth_name")
    except InvalidInput as error:
        as_ours = name.lower().replace("_", "-")
        error.hint = meant(as_ours) if as_ours in known else error.hint
        raise


def selected_by_name(text: str, task_vars: Mapping[str, Any]) -> str:
    """The text, whose commands select by berth_name what no inventory has: --limit would find no such host."""
    return selected(text, {name: "-e %s=%s" % (COUNTS[0], name) for name in _only_requested(task_vars)})


def unsaid(task_vars: Mapping[str, Any], name: str, values: Mapping[str, Any]) -> List[str]:
    """The parts of the request of an instance that nothing describes but ``values``, and which they do not mention: that it
    has them is no difference. None of an instance of the inventory, which says all that it should have, unless it was
    adopted: that one kept what it had."""
    if not is_only_requested(task_vars, name) and not values.get(ADOPTED):
        return []
    said = {option for option, value in values.items() if value not in (None, "")}
    return [part for part, options in SAID_BY.items() if said.isdisjoint(options)]


def is_only_requested(task_vars: Mapping[str, Any], name: str) -> bool:
    """Whether nothing describes the instance but -e berth_name and what is beside it."""
    return name in _only_requested(task_vars)


def addressed(
    outcomes: List[Outcome], task_vars: Mapping[str, Any], others: Optional[Mapping[str, str]] = None
) -> List[Outcome]:
    """``others``: as of ``selected``, for instances that are not even requested."""
    for outcome in outcomes:
        outcome.why, outcome.error = (
            selected(selected_by_name(text, task_vars), others or {}) for text in (outcome.why, outcome.error)
        )
    return outcomes


def _only_requested(task_vars: Mapping[str, Any]) -> Set[str]:
    groups = task_vars.get("groups") or {}
    of_inventory = {str(name) for group in groups if group not in ("all", GROUP) for name in groups[group]}
    names = {str(name) for name in groups.get(GROUP, ())} - of_inventory
    # add_host takes a host of the inventory out of ungrouped; it has a file still
    return {name for name in names if not raw_vars(task_vars, name).get("inventory_file")}
