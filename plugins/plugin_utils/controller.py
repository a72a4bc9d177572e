# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base of the actions that run on the controller, and what they keep for each other: plan and results of the run."""

from __future__ import annotations

import contextlib
import functools
import re
import secrets
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load
from ansible.plugins.action import ActionBase

from ..module_utils.conductor.closing_table import text_of
from ..module_utils.conductor.errors import ReportNotWritten, WorkEnded
from ..module_utils.conductor.silence import is_there
from ..module_utils.model import input_hints
from ..module_utils.model.errors import BerthError, InvalidInput
from ..module_utils.model.safe_text import visible_all
from . import acting, host_ends, known_ansible, run_report, screen, shared_task, tags
from .berth_name import selected_by_name
from .inventory_variables import raw_vars, read_once
from .plain import plain, rendered

PLUGINS = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r'^ *([A-Z]+) = r"""\n(.*?)"""', re.DOTALL | re.MULTILINE)
OF_ARGUMENT = ("type", "elements", "choices", "required", "default")


def documented(name, /, **choices):
    """The arguments of an action, which the page of the module of its name has. ``choices``: those of an option that the code knows."""
    page = yaml_load(_blocks("modules/%s.py" % name)["DOCUMENTATION"])
    fragments = _blocks("doc_fragments/controller.py")
    options = dict(page.get("options") or {})
    for fragment in page["extends_documentation_fragment"]:
        shared = fragments.get(fragment.rpartition(".")[2].upper())
        options.update(yaml_load(shared)["options"] if shared else {})
    spec = {option: {key: told[key] for key in OF_ARGUMENT if key in told} for option, told in options.items()}
    for option, known in choices.items():
        spec[option]["choices"] = known
    return spec


@functools.lru_cache(maxsize=None)  # all actions have the same fragments
def _blocks(path):
    """The texts of a file by their names; neither a page nor its parts are imported."""
    return dict(BLOCK.findall((PLUGINS / path).read_text("utf-8")))


class ControllerAction(ActionBase):
    """An action on data of the controller: it needs no connection; a BerthError becomes the failure of the task."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    argument_spec = {}
    ends_run = False  # also of a task that is not run once

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        if tags.leave_out(self._task):
            return {"changed": False}
        _result, args = self.validate_argument_spec(argument_spec=self.argument_spec)
        result = self._done(args, task_vars)
        if result.get("failed"):
            known_ansible.without_origin(self._task)
        return result

    def _done(self, args, task_vars):
        try:
            known_ansible.check()
            with read_once():
                result = acting.stamped({"changed": False, **self.act(args, task_vars)})
            self._report(task_vars, result)
            return result
        except BerthError as error:
            return self._failed(error, task_vars)

    def _report(self, task_vars, result):
        report, each_ends = self.reported(result), host_ends.PART in task_vars
        if each_ends:
            host_ends.note(self, task_vars, result)
        if report is None:
            return
        try:
            (host_ends if each_ends else run_report).end(self, task_vars, report)
        except InvalidInput as error:  # it was there when the run began, so this is no fault of the input
            raise ReportNotWritten(
                "the run has ended, and its result is shown above, but not in the file of berth_report: %s" % error
            ) from None

    def _failed(self, error, task_vars):
        result = {"failed": True, **visible_all(error.to_result())}
        result["msg"] = selected_by_name(text_of(result["error"]), task_vars or {})
        with contextlib.suppress(BerthError):  # a file that cannot be written hides no other error
            if task_vars and (self._task.run_once or self.ends_run and not isinstance(error, WorkEnded)):
                ending = host_ends.fail if host_ends.PART in task_vars else run_report.fail
                ending(self, task_vars, error.to_dict())
            elif task_vars:
                host_ends.note(self, task_vars, result)
        of_ours = self._task.run_once or self.ends_run or host_ends.PART in (task_vars or {})
        return screen.failure_told_once(self._task, result) if of_ours and not isinstance(error, WorkEnded) else result

    def reported(self, result):
        """What the file of berth_report gets from the result if the run ends with this task, otherwise None."""
        return None

    def act(self, args, task_vars):
        raise NotImplementedError

    def own_variables(self, task_vars, names):
        """The rendered variables of the task's own host, as plain data; absent ones are left out."""
        given = [name for name in names if name in task_vars]
        return {name: rendered(name, functools.partial(self._templar.template, task_vars[name])) for name in given}


def controller_facts(task_vars):
    """What the actions of this run keep for each other: facts of localhost."""
    facts = raw_vars(task_vars, "localhost").get("ansible_facts") or {}
    return {name: facts[name] for name in acting.FACTS if acting.of_this_run(facts.get(name))}


def controller_fact(task_vars, name):
    """One of them, which an earlier task has made."""
    found = controller_facts(task_vars)
    if name not in found:
        raise InvalidInput(name, None, "what an earlier task of a playbook decides", hint=input_hints.run_playbook())
    return plain(found[name])


def current_results(task_vars):
    return controller_fact(task_vars, "berth_results")


def outcomes_reported(action, result):
    """The end of a run, for the file of berth_report; None while others are at work."""
    if "outcomes" not in result:
        return None
    known = shared_task.noted(action, {outcome["instance"]: outcome for outcome in result["outcomes"]})
    left_out = result["ansible_facts"]["berth_results"]["left_out"]
    return None if None in known.values() else {"outcomes": list(known.values()), "hosts_left_out": left_out}


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
