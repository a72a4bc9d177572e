# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Functions shared by the actions that run on the controller: the plan of the run, and the hosts' replies."""

from __future__ import annotations

import contextlib
import secrets

from ansible.module_utils.parsing.convert_bool import BOOLEANS_FALSE, boolean
from ansible.plugins.action import ActionBase

from ..module_utils.conductor.fleet import read_fleet
from ..module_utils.conductor.inventory_names import ERROR
from ..module_utils.conductor.silence import is_there
from ..module_utils.model import berth_state, catalog_schema, host_document, host_hints, input_hints
from ..module_utils.model.errors import BerthError, InvalidInput
from ..module_utils.model.safe_text import visible_all
from ..module_utils.model.schema import ListOf, Text
from . import host_ends, kept_facts, known_ansible, run_report
from .plain import plain

CATALOG = (
    "berth_aggregates",
    "berth_flavors",
    "berth_images",
    "berth_keypairs_defined",
    "berth_networks_defined",
    "berth_pci_aliases",
    "berth_placement",
    "berth_quotas",
    "berth_security_groups_defined",
    "berth_server_groups",
    "berth_volumes_defined",
)
CELL = "berth_host_cell"
MARKS = frozenset(("berth_flavor", "berth_present_flavor", ERROR))
INSTANCE = (*catalog_schema.INSTANCE, "berth_user_data")


class ControllerAction(ActionBase):
    """An action on data of the controller: it needs no connection; a BerthError becomes the failure of the task."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    argument_spec = {}

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        _result, args = self.validate_argument_spec(argument_spec=self.argument_spec)
        try:
            known_ansible.check()
            result = {"changed": False, **self.act(args, task_vars)}
            self._report(task_vars, result)
            return result
        except BerthError as error:
            return self._failed(error, task_vars)

    def _report(self, task_vars, result):
        told, each_ends = self.reported(result), host_ends.PART in task_vars
        if each_ends:
            host_ends.note(self, task_vars, result)
        if told is not None:
            (host_ends if each_ends else run_report).end(self, task_vars, told)

    def _failed(self, error, task_vars):
        result = {"failed": True, **visible_all(error.to_result())}
        with contextlib.suppress(BerthError):  # a file that cannot be written hides no other error
            if task_vars and self._task.run_once:
                ending = host_ends.fail if host_ends.PART in task_vars else run_report.fail
                ending(self, task_vars, error.to_dict())
            elif task_vars:
                host_ends.note(self, task_vars, result)
        return result

    def reported(self, result):
        """What the file of berth_report gets from the result if the run ends with this task, otherwise None."""
        return None

    def act(self, args, task_vars):
        raise NotImplementedError

    def own_variables(self, task_vars, names):
        """The rendered variables of the task's own host, as plain data; absent ones are left out."""
        return plain({name: self._templar.template(task_vars[name]) for name in names if name in task_vars})


def lost_hosts(given):
    """berth_lost_hosts as a list; with -e it is text, names separated by commas."""
    value = given.get("berth_lost_hosts") or []
    if isinstance(value, str):
        return [name.strip() for name in value.split(",")]
    return ListOf(Text()).check(value, "berth_lost_hosts")


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
    return berth_state.power_state(values.get("berth_state"), who_locked(values))


def raw_vars(task_vars, name):
    """All variables of a host without rendering: what a host sent is never a template."""
    return task_vars["hostvars"].raw_get(name)


def variables(task_vars, host, names):
    """The rendered variables ``names`` of an inventory host, as plain data; absent ones are left out."""
    found = task_vars["hostvars"][host]
    return plain({name: found[name] for name in names if name in found})


def replies(task_vars, variable):
    """What read_hosts registered for the deciding host: inventory name of the asked host -> its answer."""
    for decider in (task_vars["inventory_hostname"], "localhost"):
        registered = raw_vars(task_vars, decider).get(variable)
        if registered:
            return registered.get("answers") or {}
    return {}


def answer(result):
    """A host's answer in a registered result, without what Ansible adds, such as warnings, which is not plain data."""
    return {key: value for key, value in result.items() if key not in ("warnings", "deprecations", "exception")}


def controller_facts(task_vars):
    """What the actions of this run keep for each other: facts of localhost."""
    return raw_vars(task_vars, "localhost").get("ansible_facts") or {}


def controller_fact(task_vars, name):
    """One of them, which an earlier task has made."""
    found = controller_facts(task_vars)
    if name not in found:
        raise InvalidInput(name, None, "what an earlier task of a playbook decides", hint=input_hints.run_playbook())
    return plain(found[name])


def current_plan(task_vars):
    return controller_fact(task_vars, "berth_plan")


def current_results(task_vars):
    return controller_fact(task_vars, "berth_results")


def outcomes_reported(result):
    """The end of a run, for the file of berth_report."""
    if "outcomes" not in result:
        return None
    return {"outcomes": result["outcomes"], "hosts_left_out": result["ansible_facts"]["berth_results"]["left_out"]}


def results_fact(outcomes, left_out):
    """The end of a run, for the task that reports failures, and for programs."""
    failed = {outcome.instance: outcome.error for outcome in outcomes if outcome.error}
    hosts = {host: {"reason": reason, "silent": not is_there(reason)} for host, reason in left_out.items()}
    return {
        "ansible_facts": {"berth_results": {"failed": failed, "left_out": hosts}},
        "outcomes": [outcome.to_dict() for outcome in outcomes],
        "_ansible_verbose_override": True,
    }


def plan_result(plan):
    """The plan travels as a fact of localhost. It is long, so only a debug task shows it."""
    return {"ansible_facts": {"berth_plan": plan}, "_ansible_verbose_override": True}


def new_token():
    """A nonce, never a counter: a claim with another token is another run's."""
    return secrets.token_hex(16)


def with_variable(task_vars, names, variable):
    """The hosts that have the variable."""
    return [str(name) for name in names if variable in raw_vars(task_vars, name)]


def instances_among(task_vars, names):
    """The names that the inventory describes as instances, or its plugin found; with berth_name all names."""
    if "berth_name" in task_vars:
        return [str(name) for name in names]
    return described(task_vars, names)


def described(task_vars, names):
    """The names that the inventory describes as instances."""
    return [str(name) for name in names if not MARKS.isdisjoint(raw_vars(task_vars, name))]


def kvm_hosts(task_vars, hosts=None):
    """The inventory names of the KVM hosts."""
    return [str(name) for name in (task_vars["groups"].get("kvm_hosts", []) if hosts is None else hosts)]


def read_reports(task_vars, hosts=None, oldest=None):
    """The fleet as the hosts reported it: what read_hosts got in this run, otherwise the facts that Ansible has of a
    host. Those do not count if they are older than ``oldest`` seconds, and replace an answer only if the host's own
    counters are higher."""
    hosts = kvm_hosts(task_vars, hosts)
    known = {name: raw_vars(task_vars, name) for name in hosts}
    found = replies(task_vars, "__berth_facts")
    reports = {}
    for name in hosts:
        reply = found.get(name)
        kept = known[name].get("ansible_facts") or {}
        facts = (reply.get("ansible_facts") or {}) if reply else kept
        old = (
            None
            if reply or kept_facts.FACT not in kept
            else kept_facts.too_old(plain(kept.get(kept_facts.READ)), oldest)
        )
        if old:
            reports[name] = {"reason": old}
        elif kept_facts.FACT in facts:
            cell = variables(task_vars, name, [CELL]).get(CELL) if CELL in known[name] else None
            reports[name] = {
                "document": kept_facts.newer(*(plain(_read_facts(source)) for source in (facts, kept))),
                "notes": plain((reply or {}).get("notes") or {}),
                "cell": None if cell is None else catalog_schema.CELL.check(cell, "%s of %s" % (CELL, name)),
            }
        else:
            reports[name] = {"reason": reason_of(reply or {})}
    return read_fleet(reports, host_document.check)


def _read_facts(facts):
    """What module host_facts reported, and when."""
    return {name: facts[name] for name in (kept_facts.FACT, kept_facts.READ) if name in facts}


def reason_of(reply):
    """Why a host's answer has no facts."""
    if "error" in reply:
        text = "%s: %s" % (reply["error"].get("code"), reply["error"].get("message"))
        return "%s. %s" % (text, reply["error"]["hint"]) if reply["error"].get("hint") else text
    return str(reply.get("reason") or "has no facts: %s" % host_hints.read_facts_first())
