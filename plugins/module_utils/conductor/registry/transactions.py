# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One transaction after the other, until one is taken: read, decide, write if what was read is still so."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from ...model import registry_hints
from ...model.errors import BerthError
from ...model.messages import Document
from ..errors import RegistryUnknown
from ..procedures.steps import Compare, Found, Procedure, Result, Transact, Wait, Write
from . import keys

TRIES = 30
AT_ONCE = 100  # keys of one question: etcd takes 128


class RegistryBusy(BerthError):
    """Other runs changed what this one was about to change in the registry, again and again. Nothing was changed; try later."""


class RegistryClosed(RegistryBusy):
    """The registry is being set up or was restored: it takes nothing until it is known what all hosts have."""


def read_keys(wanted: Sequence[str]) -> Procedure[Dict[str, Found]]:
    """Those of the keys that are there."""
    found: Dict[str, Found] = {}
    for at in range(0, len(wanted), AT_ONCE):
        found.update((yield Transact(reads=tuple(wanted[at : at + AT_ONCE])))["found"])
    return found


class Draft:
    """What a decision has read, and what it writes. All that was read has to be unchanged when it is written."""

    def __init__(self, found: Optional[Dict[str, Optional[Found]]] = None) -> None:
        """``found``: what is read already."""
        self.found = dict(found or {})
        self.writes: Dict[str, Write] = {}

    def read(self, *wanted: str) -> Procedure[None]:
        missing = tuple(key for key in dict.fromkeys(wanted) if key not in self.found)
        if missing:
            answer = yield Transact(reads=missing)
            self.found.update({key: answer["found"].get(key) for key in missing})

    def get(self, key: str) -> Any:
        """The document, or None. Raises RegistryDocumentInvalid."""
        return keys.document(key, self.found[key])

    def put(self, key: str, document: Any) -> None:
        self.writes[key] = keys.written(key, document)

    def remove(self, key: str) -> None:
        self.writes[key] = Write(key, None)

    def transaction(self) -> Transact:
        revisions = ((key, found.revision if found else 0) for key, found in self.found.items())
        return Transact(tuple(Compare(*each) for each in revisions), tuple(self.writes.values()), tuple(self.found))

    def again(self, now: Dict[str, Found]) -> Draft:
        """One for the same decision, by what is there ``now``, when this one was refused."""
        return Draft({key: now.get(key) for key in self.found})


def transacted(
    change: Callable[[Draft], Procedure[Result]], wanted: Sequence[str] = (), closed: bool = False
) -> Procedure[Result]:
    """What ``change`` returns, once its writes were taken, or it has none: as where it finds that it wrote them before, and
    the answer was lost. It raises where it refuses. ``wanted``: keys that it reads in any case, so that one question does for
    all; ``closed``: it may also be made while the registry is closed. Raises RegistryBusy, RegistryClosed, RegistryUnknown."""
    unknown: Optional[RegistryUnknown] = None
    draft = Draft()
    for attempt in range(1, TRIES + 1):
        try:
            yield from draft.read(keys.META, *wanted)
            _check_open(draft.get(keys.META), closed)
            result = yield from change(draft)
            if not draft.writes:
                return result
            answer = yield draft.transaction()
            if answer["succeeded"]:
                return result
            draft = draft.again(answer["found"])
            if attempt == 1:  # at once: nothing is as fresh as that
                continue
        except RegistryUnknown as error:
            if unknown:
                raise
            unknown = error  # once: whether it was written shows when it is read again
        yield Wait()
        wanted, draft = tuple(draft.found), Draft()
    raise RegistryBusy("other runs change the same part of the registry, and %d tries did not get through" % TRIES)


def heard(change: Callable[[Draft], Procedure[Any]]) -> Procedure[None]:
    """Have the engine hear what is so by now, if it answers: else a later run tells it, or an audit."""
    with contextlib.suppress(RegistryUnknown, RegistryBusy):
        yield from transacted(change)


def of_each(step: Callable[[str, Any], Procedure[None]], tasks: Mapping[str, Any]) -> Procedure[Dict[str, BerthError]]:
    """Do the step for each task, by name. Return why it failed."""
    failed: Dict[str, BerthError] = {}
    for name, task in tasks.items():
        try:
            yield from step(name, task)
        except BerthError as error:
            failed[name] = error
    return failed


def check_open(meta: Optional[Found]) -> None:
    """Raise RegistryClosed where what the registry says does not count. ``meta``: what it says of itself."""
    _check_open(keys.document(keys.META, meta), False)


def _check_open(meta: Any, closed: bool) -> None:
    if not meta:
        raise RegistryClosed("the registry is empty", hint=registry_hints.fill_registry())
    if meta["open"] or closed:
        return
    if is_between(meta):
        raise RegistryClosed(
            "the fleet is on its way to the registry, or has left it", hint=registry_hints.fill_registry()
        )
    raise RegistryClosed("the registry is closed until all hosts were audited", hint=registry_hints.compare_all_hosts())


def is_between(meta: Document) -> bool:
    """Whether a closed registry is so because the hosts change over, not since it was restored."""
    return bool(meta.get("before", meta["incarnation"]) != meta["incarnation"])
