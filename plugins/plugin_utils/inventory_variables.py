# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the variables of the inventory say, as plain data: which names are instances and KVM hosts, and values that -e
and surveys give as text (lost hosts, locks, yes and no, berth_state)."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re

from ansible.errors import AnsibleValueOmittedError
from ansible.module_utils.parsing.convert_bool import BOOLEANS_FALSE, boolean
from ansible.vars.hostvars import HostVarsVars

from ..module_utils.conductor.dynamic_inventory import ERROR
from ..module_utils.model import catalog_schema, vm_states
from ..module_utils.model.errors import InvalidInput, together
from ..module_utils.model.identity import OWN_UUIDS
from ..module_utils.model.schema import ListOf, Text
from ..module_utils.model.unknown_names import did_you_mean
from .plain import rendered

# The parts of the catalog that an instance may have values of its own for, and those that all instances share.
OWN_CATALOG = (
    "berth_flavors",
    "berth_images",
    "berth_keypairs_defined",
    "berth_networks_defined",
    "berth_pci_aliases",
    "berth_security_groups_defined",
    "berth_volumes_defined",
)
SHARED_CATALOG = ("berth_aggregates", "berth_placement", "berth_quotas", "berth_server_groups")
CATALOG = (*OWN_CATALOG, *SHARED_CATALOG)
MARKS = frozenset(("berth_flavor", "berth_present_flavor", ERROR))
INSTANCE = (*catalog_schema.INSTANCE, "berth_user_data")
CLONE_OF = "berth_clone_of"  # playbooks/clone.yml gives it to the new instance
ITS_HOST = {"berth_target_host", "berth_force_hosts", "berth_ignore_hosts"}  # where it was made, not where it is
INHERITED = {*CATALOG, *INSTANCE, "berth_project"} - {"berth_volumes", *OWN_UUIDS, *ITS_HOST}


def lost_hosts(values):
    return listed(values, "berth_lost_hosts")


def fenced(task_vars):
    """{hosts, evidence} of the hosts that this run has switched off: they are as lost as those that a person names. Only an
    evacuation fences hosts."""
    return {"hosts": [], "evidence": "", **(raw_vars(task_vars, "localhost").get("__berth_fenced") or {})}


def listed(values, variable):
    """A variable as a list of names; with -e it is text, names separated by commas, from a survey also by lines or as JSON."""
    value = values.get(variable) or []
    if isinstance(value, str):
        names = value.strip()[1:-1] if value.strip().startswith("[") else value  # what is none is told as it is
        return [name.strip(" \t\r\"'") for name in re.split("[,\n]", names)]
    return ListOf(Text()).check(value, variable)


def who_locked(values):
    """berth_locked: true or who locked it, None for false; a survey sends false as text."""
    locked = values.get("berth_locked")
    return None if locked is None or str(locked).strip().lower() in ("", *map(str, BOOLEANS_FALSE)) else locked


def is_true(values, name):
    """Whether the variable is true, also as text from -e or a survey; InvalidInput if it is neither yes nor no."""
    try:
        return boolean(values.get(name) or False)
    except TypeError:
        raise InvalidInput(name, values[name], "true or false")


def power_state(values):
    """The power state that the variables of an instance ask for; None leaves the guest as it is."""
    return vm_states.power_state(values.get("berth_state"), who_locked(values))


def raw_vars(task_vars, name):
    """All variables of a host without rendering: what a host sent is never a template. A clone that the inventory does not
    describe has those of the instance that it is a clone of."""
    hostvars = task_vars["hostvars"]
    own = _raw_get(hostvars, name)
    source = own.get(CLONE_OF)
    if not isinstance(source, str) or source not in hostvars or own.get("inventory_file"):
        return own
    return {**own, **{each: value for each, value in _raw_get(hostvars, source).items() if each in INHERITED}}


_READ = []  # of each action at work, the innermost last: (the hostvars, name) -> its raw variables


@contextlib.contextmanager
def read_once():
    """Within it Ansible puts the variables of each host together once, which takes it a third of a millisecond: while a task
    is at work they stay as they are."""
    _READ.append({})
    try:
        yield
    finally:
        _READ.pop()


def _raw_get(hostvars, name):
    if not _READ:
        return hostvars.raw_get(name)
    of_hostvars, known = _READ[-1].setdefault(id(hostvars), (hostvars, {}))
    if name not in known:
        known[name] = of_hostvars.raw_get(name)
    return known[name]


def variables(task_vars, host, names):
    """The rendered variables ``names`` of an inventory host, as plain data; absent ones and those that are ``omit`` are
    left out. A template in them may use hostvars: Ansible has none of them where it renders another host's variables."""
    hostvars = task_vars["hostvars"]
    values = HostVarsVars({**raw_vars(task_vars, host), "hostvars": hostvars}, loader=hostvars._loader, host=host)

    def given(name):
        with contextlib.suppress(AnsibleValueOmittedError):
            return [(name, rendered(name, functools.partial(values.__getitem__, name)))]
        return []

    parts = together(functools.partial(given, name) for name in names if name in values)
    return dict(itertools.chain.from_iterable(parts))


def with_variable(task_vars, names, variable):
    return [str(name) for name in names if variable in raw_vars(task_vars, name)]


def instances_among(task_vars, names):
    """The names that the inventory describes as instances, or its plugin found; with berth_name all names."""
    if "berth_name" in task_vars:
        return [str(name) for name in names]
    return described(task_vars, names)


def described(task_vars, names):
    unknown = [name for name in names if name not in task_vars["hostvars"]]
    if unknown:  # of a play of somebody's own: a playbook of ours takes them from the inventory
        hint = did_you_mean(unknown[0], map(str, task_vars["groups"]["all"]))
        raise InvalidInput("instances", unknown[0], "the name of a host of the inventory", hint=hint)
    return [str(name) for name in names if not MARKS.isdisjoint(raw_vars(task_vars, name))]


def kvm_hosts(task_vars, hosts=None):
    return [str(name) for name in (task_vars["groups"].get("kvm_hosts", []) if hosts is None else hosts)]
