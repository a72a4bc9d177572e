# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answers of the hosts in this run, and the fleet that they make; of a host that was not asked, the facts that
Ansible has of it, as a play of somebody's own may bring them with module host_facts."""

from __future__ import annotations

import functools

from ..module_utils.conductor import majority, silence
from ..module_utils.conductor.errors import NoHostAnswered
from ..module_utils.conductor.fleet import own_name, read_fleet
from ..module_utils.conductor.registry.engine import Known, fleet_of, with_notes
from ..module_utils.model import catalog_schema, host_document, host_hints
from ..module_utils.model.errors import shortened
from ..module_utils.model.identity import OWN_UUIDS
from ..module_utils.model.safe_text import clean
from . import tags
from .inventory_variables import is_true, kvm_hosts, raw_vars, variables, with_variable
from .plain import plain

FACT = "berth_host"
FOUND = "__berth_facts"  # what read_hosts has registered
CELL = "berth_host_cell"
DISABLED, DISABLED_REASON = "berth_host_disabled", "berth_host_disabled_reason"


def replies(task_vars, variable):
    """What read_hosts returned, in this task or for the deciding host: inventory name of the asked host -> its answer."""
    return _registered(task_vars, variable).get("answers") or {}


def _registered(task_vars, variable):
    deciders = (task_vars["inventory_hostname"], "localhost")
    for known in (task_vars, *(raw_vars(task_vars, decider) for decider in deciders)):
        if known.get(variable):
            return known[variable]
    return {}


def answer(result):
    """A host's answer in a registered result, without what Ansible adds, such as warnings, which is not plain data."""
    return {key: value for key, value in result.items() if key not in ("warnings", "deprecations", "exception")}


def read_reports(task_vars, hosts=None):
    """The fleet as the hosts reported it: what read_hosts got in this run; of a host that it did not ask, the facts that
    Ansible has, whatever their age: the claim on the host has the last word. Over a registry, those hosts alone that it asked."""
    hosts, known = kvm_hosts(task_vars, hosts), known_of(task_vars)
    if known is None:
        return checked_fleet(task_vars, hosts, _reports(task_vars, hosts))
    asked = replies(task_vars, FOUND)
    reports = _reports(task_vars, [name for name in hosts if name in asked])
    return with_notes(checked_fleet(task_vars, hosts, known.heard(reports)), known)


def all_hosts(task_vars, hosts, known):
    """As engine.fleet_of(): all hosts as the registry has them, and those that were asked as they said. ``known``: of the instances."""
    asked = replies(task_vars, FOUND)
    live = _reports(task_vars, [name for name in hosts if name in asked])
    return fleet_of(hosts, known, live, reader(task_vars, hosts))


def reader(task_vars, hosts):
    """Makes a fleet of the reports of some of the hosts."""
    return functools.partial(_with_cells, task_vars, hosts)


def known_of(task_vars):
    """What the registry knew of the instances when this run read the hosts; None where it asked all of them."""
    found = _registered(task_vars, FOUND).get("known")
    return None if found is None else Known(**plain(found))


def checked_fleet(task_vars, hosts, reports):
    named = functools.lru_cache(maxsize=None)(functools.partial(_with_own_uuid, task_vars, hosts))
    return read_fleet(reports, functools.partial(_checked, named))


def _with_cells(task_vars, hosts, reports):
    for name in reports:
        if "document" in reports[name]:
            reports[name]["cell"] = _cell(task_vars, name)
    return checked_fleet(task_vars, hosts, reports)


def _cell(task_vars, name):
    """The cell that the inventory gives the host."""
    cell = variables(task_vars, name, [CELL]).get(CELL) if CELL in raw_vars(task_vars, name) else None
    return None if cell is None else catalog_schema.CELL.check(cell, "%s of %s" % (CELL, name))


def _reports(task_vars, hosts):
    known = {name: raw_vars(task_vars, name) for name in hosts}
    found = replies(task_vars, FOUND)
    if not found:
        tags.check_asked()
    reports, drained = {}, functools.lru_cache(maxsize=None)(functools.partial(_drained, task_vars))
    for name in hosts:
        reply = found.get(name)
        facts = (reply or known[name]).get("ansible_facts") or {}
        if FACT in facts:
            reports[name] = {
                "document": plain(facts[FACT]),
                "notes": plain((reply or {}).get("notes") or {}),
                "members": plain((reply or {}).get("members") or {}),
                "cell": _cell(task_vars, name),
            }
        else:
            reports[name] = {"reason": _if_closed(task_vars, name, reason_of(reply or {}), drained)}
    return reports


def _checked(named, document):
    """The document, with the names that the inventory gives to instances whose uuid does not follow from one: no host can give
    it. ``named()`` looks at the whole inventory, so it is asked only where a host has such an instance."""
    document = host_document.check(document)
    for each in document["instances"]:
        if own_name(each):
            each["name"] = named().get(each["uuid"], each["uuid"])
    return document


def _with_own_uuid(task_vars, hosts):
    """uuid -> name, of each uuid that one instance of the inventory has."""
    found = {}
    names = {name for field in OWN_UUIDS for name in with_variable(task_vars, task_vars["groups"]["all"], field)}
    for name in names - {*hosts, "localhost"}:
        # of what is no uuid, uuid_of says so where the instance is meant
        for uuid in {str(value) for value in variables(task_vars, name, OWN_UUIDS).values()}:
            found.setdefault(uuid, []).append(name)
    return {uuid: names[0] for uuid, names in found.items() if len(names) == 1}


def reason_if_closed(task_vars, name, reason):
    """Why the host did not answer; of one that was drained or that the inventory has closed, also that: so that nobody takes it
    for lost."""
    return _if_closed(task_vars, name, reason, functools.partial(_drained, task_vars))


def _drained(task_vars):
    """Host -> why, of those that the hosts which answered remember as drained."""
    told = {host: plain(reply.get("members") or {}) for host, reply in replies(task_vars, "__berth_facts").items()}
    return majority.closed(told)


def _if_closed(task_vars, name, reason, drained):
    """``drained()`` is asked only about a silent host."""
    if silence.is_there(reason):
        return reason
    if name in drained():
        return silence.closed(reason, "by berth.kvm.drain", clean(drained()[name], 255))
    values = variables(task_vars, name, [DISABLED, DISABLED_REASON])
    if not is_true(values, DISABLED):
        return reason
    return silence.closed(reason, "by the inventory", clean(str(values.get(DISABLED_REASON) or ""), 255))


def none_answered(reasons):
    """``reasons``: host -> why nothing is known about it."""
    hosts_of = {}
    for host, reason in reasons.items():
        hosts_of.setdefault(reason, []).append(host)
    told = "; ".join("%s: %s" % (shortened(hosts), reason) for reason, hosts in hosts_of.items())
    return NoHostAnswered("no host answered: %s" % told)


def reason_of(reply):
    """Why a host's answer has no facts."""
    if "error" in reply:
        text = "%s: %s" % (reply["error"].get("code"), reply["error"].get("message"))
        return "%s. %s" % (text, reply["error"]["hint"]) if reply["error"].get("hint") else text
    return str(reply.get("reason") or "has no facts: %s" % host_hints.read_facts_first())
