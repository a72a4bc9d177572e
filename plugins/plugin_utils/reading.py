# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The first step of each run: its variables are checked, and all hosts are read."""

from __future__ import annotations

import dataclasses
import time

from ansible.utils.vars import load_extra_vars

from ..module_utils.conductor.errors import RegistryUnknown
from ..module_utils.conductor.registry import which_operations
from ..module_utils.conductor.registry.engine import whereabouts
from ..module_utils.conductor.registry.moves import named
from ..module_utils.conductor.registry.transactions import RegistryClosed
from ..module_utils.conductor.renaming import OPERATION as RENAME
from ..module_utils.model import hints
from ..module_utils.model.errors import BerthError, shortened
from ..module_utils.model.identity import IDENTITY, instance_uuid, project_of, uuid_of
from ..module_utils.model.messages import BESIDE_FACTS
from . import berth_where, host_ends, registry_access
from .answers_of_hosts import none_answered, reason_of
from .berth_name import (
    COUNTS,
    NEW_NAME,
    check_adopted,
    check_clone,
    check_counts,
    check_given,
    check_group,
    check_name,
    is_only_requested,
)
from .beside_catalog import told_with_values
from .driving import carry_out
from .fan_out import answers, ask, warnings
from .inventory_variables import described, fenced, instances_among, kvm_hosts, lost_hosts, raw_vars, variables
from .misplaced import check_vars_of_play
from .screen import warn
from .selection import check_no_group, no_kvm_hosts
from .variables import check_variables

OLD_NAME = "__berth_old_name"  # of a playbook that was imported by the name that it had before 1.0
DEFAULTS = {**dict.fromkeys(BESIDE_FACTS, False), "must_answer": True, "most": None}


def read(action, args, task_vars):
    """Ask all hosts for their facts, and what they know about the instances; over a registry, those that it knows to have one of
    them, or all that may see their disks. ``args``: as of module read_hosts. Return its result."""
    args = {**DEFAULTS, **args}
    hosts = kvm_hosts(task_vars, args["hosts"])
    makes = args["operation"] in ("place", "show_places")
    with told_with_values(task_vars, args["instances"] if makes else (), hosts):
        begin(action, task_vars, hosts)
    berth_where.check_chosen(task_vars, instances_among(task_vars, args["instances"]))
    more = {name: args[name] for name in BESIDE_FACTS}
    access = registry_access.of_run(action, task_vars, hosts)
    new_name = action.own_variables(task_vars, [NEW_NAME]).get(NEW_NAME) if args["operation"] == RENAME else None
    uuids = _uuids({**args, "most": None} if access else args, task_vars, new_name)
    known, why_not = _known(action, task_vars, access, args["operation"], uuids) if access else (None, None)
    asks_all = known is None or which_operations.asks_all(args["operation"])
    asked = hosts if asks_all else [name for name in hosts if name in known.asked()]
    began = time.time()
    results = ask(action, task_vars, asked, "host_facts", {"about": uuids, **more})
    found = answers(results)
    in_moves = {} if known is None else named(view for reply in found.values() for view in reply.get("moves") or ())
    beside = [name for name in hosts if name in in_moves and name not in asked]
    if beside:  # the registry was not told yet that they have a part in a move
        results.update(ask(action, task_vars, beside, "host_facts", {"about": uuids, **more}))
        found = answers(results)
    if args["must_answer"] and known is None:
        check_answers(found)
    if why_not and which_operations.may_start(args["operation"]):
        _check_all_answer(action, task_vars, found, why_not)
    times = {"asked": [began, time.time()], "changed": any(reply.get("changed") for reply in found.values())}
    of_registry = {} if known is None else {"known": dataclasses.asdict(known)}
    return {**warnings(results), **times, **of_registry, "answers": found, "_ansible_verbose_override": True}


def _known(action, task_vars, access, operation, uuids):
    """(what the registry knows of the instances, None). None if all hosts are asked, since the operation only looks, or does without
    a registry that gives no answer or is closed, with the error that says so."""
    if not which_operations.asks_where(operation):
        return None, None
    try:
        return carry_out(action, task_vars, whereabouts(uuids), engine=access)[0], None
    except (RegistryUnknown, RegistryClosed) as error:
        if which_operations.waits(operation):
            raise
        warn("All hosts are asked: %s" % error)
        return None, error


def _check_all_answer(action, task_vars, found, why_not):
    """Raise ``why_not`` if a host is silent and not lost: it may have the instance, and then only the registry knows that what
    another one has is an old copy."""
    lost = lost_hosts(action.own_variables(task_vars, ["berth_lost_hosts"]))
    silent = [
        host for host in found if "berth_host" not in (found[host].get("ansible_facts") or {}) and host not in lost
    ]
    if silent:
        text = "%s, and %s, which may have what is to be started, does not answer either"
        raise type(why_not)(text % (why_not.message, shortened(silent)), hint=hints.LOST % silent[0])


def begin(action, task_vars, hosts):
    """What comes before any host is asked: the variables of the run are checked, and its report says that it goes on."""
    if OLD_NAME in task_vars:
        warn("the playbook berth.kvm.%s now, and the old name is gone with 2.0.0" % task_vars[OLD_NAME])
    counts = action.own_variables(task_vars, COUNTS)
    check_name(counts, hosts, task_vars["groups"]["all"])
    if is_only_requested(task_vars, str(counts.get("berth_name"))):
        check_no_group("berth_name", str(counts["berth_name"]), task_vars["groups"])
    check_variables(action, task_vars, hosts)
    check_clone(task_vars, {**counts, **action.own_variables(task_vars, [NEW_NAME])})
    check_counts(counts)
    check_group(counts, task_vars["groups"])
    extra_vars = load_extra_vars(action._loader)
    for variable in ("berth_name", berth_where.VARIABLE):
        check_given(task_vars, extra_vars, variable)
    check_adopted(extra_vars)
    check_vars_of_play(task_vars, raw_vars(task_vars, task_vars["inventory_hostname"]))
    host_ends.begin(action, task_vars)
    if not hosts:
        raise no_kvm_hosts(task_vars)


def _uuids(args, task_vars, new_name):
    """The instances about which the hosts are asked what they remember; also that whose uuid would follow from ``new_name``."""
    names = instances_among(task_vars, args["instances"])
    if args["most"] is not None and len(names) > args["most"]:
        return []
    if fenced(task_vars)["hosts"] or any(raw_vars(task_vars, name).get("berth_lost_hosts") for name in names):
        # whether several machines had a lost name shows only in what hosts remember, even if --limit selects few
        names = dict.fromkeys([*names, *described(task_vars, task_vars["groups"]["all"])])
    found = []
    for name in names:
        try:
            values = variables(task_vars, name, IDENTITY)
            found.append(uuid_of(name, values))
            found += [instance_uuid(project_of(values), str(new_name))] if new_name else []
        except BerthError:
            continue  # the action that works on the instance reports what is wrong with its name
    return found


def check_answers(found):
    """Raise NoHostAnswered if nothing is known about any host."""
    if not any("berth_host" in (reply.get("ansible_facts") or {}) for reply in found.values()):
        raise none_answered({host: reason_of(reply) for host, reply in found.items()})
