# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives the procedures that ship over hosts in memory, one call to one host at a time, so that runs can be mixed and killed."""

from __future__ import annotations

from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import RegistryUnknown
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import (
    Ask,
    Look,
    Say,
    Scan,
    Transact,
    Wait,
)


def driven(procedure, answer_of):
    """The procedure's result. ``answer_of``: a step -> its answer."""
    answer = None
    while True:
        try:
            step = procedure.send(answer)
        except StopIteration as ended:
            return ended.value
        answer = answer_of(step)


def play(procedure, ask, look=None, engine=None):
    """The procedure's result. ``ask``: (host, module, arguments) -> a generator that stops after each thing that the host
    does, and returns its answer; ``look``: names or None -> such a generator, which finds these instances, or all, again;
    ``engine``: of a registry."""
    answer = unknown = None
    while True:
        try:
            step = procedure.throw(unknown) if unknown else procedure.send(answer)
        except StopIteration as ended:
            return ended.value
        answer = unknown = None
        if isinstance(step, (Transact, Scan)):
            try:
                answer = engine.transact(step) if isinstance(step, Transact) else engine.scan(step)
            except RegistryUnknown as error:
                unknown = error
        if isinstance(step, (Transact, Scan, Wait)):
            yield  # others go on
        if isinstance(step, Look):
            answer = yield from look(step.names)
        if isinstance(step, Ask):
            answer = {}
            checks = {"check": True} if step.check else {}
            for host, given in step.arguments.items():
                arguments = {**given, **checks}
                answer[host] = yield from ask(step.host_of(host), step.module, arguments)
        elif step is None:  # a thing that a host did, of whom the run itself asks
            yield


def run(generator):
    """Run to the end; what it returned."""
    while True:
        try:
            next(generator)
        except StopIteration as end:
            return end.value


def ask(module, given, call, build):
    """The answer of one host to a step of a create. ``call``: (method, arguments) -> its answer; ``build``: a build's
    arguments -> the answer to it."""
    if module == "claim":
        answer = call("claim", given.get("claims", ()), given.get("withdraw", ()))
        yield
        return answer
    if module == "rescan":
        answer = call("rescan", given.get("about", ()), given.get("told"))
        yield
        return answer
    assert module == "build_instances", module
    builds = []
    for wanted in given["builds"]:
        reply = build(wanted)
        yield
        if "error" in reply:
            reply = {part: reply[part] for part in reply if part != "reason"}
        elif "reason" in reply:
            return reply  # of a host that falls silent nobody knows what else it built
        builds.append({"uuid": wanted["uuid"], "reply": reply})
    return {"builds": builds}


def played(procedure, said=None, again=None):
    """(result, what was asked, what was said). ``said``: (host, name or host) -> its answer; ``again``: what a second look finds."""
    asked, told, answer = [], [], None
    while True:
        try:
            step = procedure.send(answer)
        except StopIteration as ended:
            return ended.value, asked, told
        answer = None
        if isinstance(step, Say):
            told.append(step)
            continue
        if isinstance(step, Look):
            asked.append(step)
            answer = again
            continue
        assert isinstance(step, Ask)
        asked.append(step)
        shown = {"changed": True, "instance": {"uuid": "u", "state": "shutdown"}}
        answer = {}
        for name, given in step.arguments.items():
            keys = [(step.host_of(name), name), (step.host_of(name), name, given.get("state"))]
            answer[name] = next((said[key] for key in keys if key in (said or {})), shown)
