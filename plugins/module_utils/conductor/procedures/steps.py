# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a procedure asks the hosts, and tells, in the order in which it does.

A procedure is a generator: the one place where the order of an operation is written. It yields an Ask and gets the hosts'
answers, or yields a Say and gets nothing; it neither reads nor writes anything itself. Whoever drives it carries it out:
plugin_utils/driving.py over Ansible's workers, the tests on hosts in memory, where each call to a host can be the last one.
A Transact or a Scan goes to the engine of the registry. RegistryUnknown is thrown into the procedure where that gives no answer.
"""

from __future__ import annotations

from typing import Any, Dict, Generator, Iterator, Mapping, NamedTuple, Optional, Tuple, TypedDict, TypeVar, Union, cast

from ...model import hints
from ...model.errors import BerthError
from ...model.messages import Document
from ..errors import RegistryUnknown


class Ask(NamedTuple):
    """Each host in ``arguments`` runs ``module`` with its own. Answers: host -> what the module replied, or {error}, or
    {reason} where the host did not answer. With ``at`` (name -> host) arguments and answers are by such a name, and a host
    runs several at once. ``check``: in check mode, whatever the run's is."""

    module: str
    arguments: Dict[str, Document]
    at: Optional[Mapping[str, str]] = None
    check: bool = False

    def host_of(self, asked: str) -> str:
        return (self.at or {}).get(asked, asked)


class Say(NamedTuple):
    """What people and programs hear while the procedure goes on: {uuid, host, and of STATES those that the instance has
    now}. A move also tells the ``leg`` that begins, and the one that ``ended``, with {changed, took}."""

    instance: str
    event: Document


class Look(NamedTuple):
    """All hosts are read again, and the instances located anew, or those of ``names``. Answer: name -> task of those that are
    found."""

    names: Optional[Tuple[str, ...]] = None


class Compare(NamedTuple):
    """What a key has to be. ``revision``: of its last change, 0 if it must not be there. With a ``value``, that counts instead."""

    key: str
    revision: int = 0
    value: Optional[bytes] = None


class Write(NamedTuple):
    """``value`` None: the key is removed."""

    key: str
    value: Optional[bytes]


class Found(NamedTuple):
    """``revision``: of the last change of the key; ``sealed``: a controller of this version has checked and written the value."""

    value: bytes
    revision: int
    sealed: bool = False


class Transact(NamedTuple):
    """All of ``writes`` at once if all of ``compare`` is so, else none. Answer: a Transacted. RegistryUnknown: either may be so."""

    compare: Tuple[Compare, ...] = ()
    writes: Tuple[Write, ...] = ()
    reads: Tuple[str, ...] = ()


class Transacted(TypedDict):
    """``revision``: of the engine by now; ``cluster``: its own name for itself, which a restore by its own tools changes, unless
    they are told not to; ``found``: those of ``reads`` that are there, as they are after it."""

    succeeded: bool
    revision: int
    cluster: str
    found: Dict[str, Found]


class Scan(NamedTuple):
    """All keys that begin with ``prefix``, as of one revision, or those of them that changed after revision ``since``. Answer:
    {revision, cluster, found}, as of a Transact."""

    prefix: str
    since: int = 0


class Wait(NamedTuple):
    """A moment of random length before the next try, at most ``longest`` seconds: many runs that want the same hinder one another less
    where their tries lie far apart. No answer."""

    longest: float = 1.6


STATES = ("role", "phase", "vm_state", "task_state", "power_state", "state")


def said(name: str, uuid: str, host: Any, now: Mapping[str, Any], **more: int) -> Say:
    """``now``: the instance as its host shows it."""
    return Say(name, {"uuid": uuid, "host": host, **{part: now[part] for part in STATES if part in now}, **more})


Answers = Mapping[str, Any]
Result = TypeVar("Result")
Step = Union[Ask, Say, Look, Transact, Scan, Wait]
Procedure = Generator[Step, Answers, Result]


def refusals(replies: Answers) -> Iterator[Tuple[str, str, str]]:
    """(host, why, what to do) of those that did not do what they were asked."""
    for host, reply in replies.items():
        error = reply.get("error") or {}
        why = reply.get("reason") or error.get("message")
        if why:
            yield host, why, error.get("hint") or hints.run_again()


def side_by_side(procedures: Mapping[str, Procedure[Result]]) -> Procedure[Dict[str, Result]]:
    """Carry out several procedures, none of which Looks: what they ask of one module next is asked at once. Return what
    each returned."""
    results: Dict[str, Result] = {}
    answers: Dict[str, Optional[Answers]] = dict.fromkeys(procedures)
    while answers:
        asks: Dict[str, Ask] = {}
        for name, answer in answers.items():
            step = _next(procedures[name], answer)
            while not isinstance(step, (Ask, _Returned)):
                step = yield from _carried_out(procedures[name], step)
            if isinstance(step, Ask):
                asks[name] = step
            else:
                results[name] = step.result
        answers = {}
        for module in dict.fromkeys(ask.module for ask in asks.values()):
            answers.update(
                (yield from _together(module, {name: ask for name, ask in asks.items() if ask.module == module}))
            )
    return results


class _Returned(NamedTuple):
    result: Any


def _carried_out(procedure: Procedure[Result], step: Step) -> Procedure[Union[Step, _Returned]]:
    """What it yields, or returns, after a step that is no Ask."""
    try:
        answer = yield step
    except RegistryUnknown as error:
        return _next(procedure, thrown=error)
    return _next(procedure, answer)


def _next(
    procedure: Procedure[Result], answer: Optional[Answers] = None, thrown: Optional[BerthError] = None
) -> Union[Step, _Returned]:
    """Its next step, or what it returned."""
    try:
        return procedure.throw(thrown) if thrown else procedure.send(cast(Answers, answer))
    except StopIteration as ended:
        return _Returned(ended.value)


def _together(module: str, asks: Mapping[str, Ask]) -> Procedure[Dict[str, Answers]]:
    """Name -> the answers to its Ask of this module."""
    named = {(name, asked): "%s %s" % (name, asked) for name, ask in asks.items() for asked in ask.arguments}
    answers = yield Ask(
        module,
        {one: asks[name].arguments[asked] for (name, asked), one in named.items()},
        {one: asks[name].host_of(asked) for (name, asked), one in named.items()},
    )
    return {name: {asked: answers[named[name, asked]] for asked in ask.arguments} for name, ask in asks.items()}
