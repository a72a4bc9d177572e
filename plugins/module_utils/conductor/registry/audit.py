# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An audit compares the registry with what the hosts say, tells each difference, and mends the registry by the hosts where they
prove it.

It changes only what is as it was when it read it: what a run changes meanwhile is that run's. A registry that is closed, since
it was restored from a backup, is opened at the end, once all hosts were seen or given up as lost. One that is older than a
host has seen, or says that it is another cluster, was restored by hand: it is closed first, and gets a new incarnation.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Dict, List, Mapping, NamedTuple, Set, Tuple

from ...model import registry_hints
from ...model.messages import Document
from ..fleet import Fleet
from ..procedures.steps import Procedure
from . import contents, enrol, holdings, hosts, keys
from .owners import Difference
from .transactions import Draft, RegistryClosed, is_between, transacted


class Audited(NamedTuple):
    """``mended``: the keys that were written; ``busy``: those that a run changed meanwhile; ``opened``: it was closed before."""

    changed: bool
    differences: List[Difference]
    mended: List[str]
    busy: List[str]
    opened: bool


def audit(run: enrol.Run) -> Procedure[Audited]:
    meta = yield from enrol.read_meta()
    if not meta.document:
        raise RegistryClosed("the registry is empty", hint=registry_hints.fill_registry())
    known = yield from enrol.known_hosts()
    # before the hosts: a host that shows what is not here yet has taken it since
    kept = yield from contents.kept()
    fleet = yield from enrol.look(run)
    latest = (yield from enrol.read_meta()).latest  # after the hosts, of which runs have asked some meanwhile
    if meta.document["open"] and keys.is_of_cluster(meta.document, meta.cluster) and not _is_older(meta, latest, fleet):
        return (yield from _compared(run, meta, known, kept, fleet))
    if is_between(meta.document):
        raise RegistryClosed(
            "the fleet is on its way to the registry, or has left it", hint=registry_hints.fill_registry()
        )
    return (yield from _opened(run, meta, known, fleet))


def _is_older(meta: enrol.Meta, latest: int, fleet: Fleet) -> bool:
    """Whether a host has seen a revision of this incarnation that the registry does not have. ``latest``: its own."""
    marks = [document.get("registry") for document in fleet.documents.values()]
    of_it = [mark for mark in marks if mark and mark["incarnation"] == meta.document["incarnation"]]
    return any(mark["revision"] > latest for mark in of_it)


def _opened(run: enrol.Run, meta: enrol.Meta, known: Mapping[str, str], fleet: Fleet) -> Procedure[Audited]:
    """While it is closed, and no host takes what came before, no run acts: what the hosts say is how it is."""
    enrol.check_marks(fleet, meta, known, restored=True)
    enrol.check_all_there(run, fleet, known)
    if run.dry:
        kept = yield from contents.kept()
        wanted = contents.wanted(kept, enrol.seen_by(run, fleet, known, still=True))
        return Audited(True, wanted.differences, sorted(wanted.documents), [], True)
    meta = yield from enrol.closed(run, meta, comes_back=True)
    yield from enrol.marked(meta, fleet, "does not take its mark")
    fleet = yield from enrol.look(run)
    enrol.check_all_there(run, fleet, known)
    wanted = yield from enrol.filled(run, meta, enrol.seen_by(run, fleet, known, still=True))
    yield from enrol.opened(meta)
    return Audited(True, wanted.differences, sorted(wanted.documents), [], True)


def _compared(
    run: enrol.Run, meta: enrol.Meta, known: Mapping[str, str], kept: contents.Kept, fleet: Fleet
) -> Procedure[Audited]:
    strangers = _strangers(meta, known, fleet)
    own = {host: document for host, document in fleet.documents.items() if host not in strangers}
    fleet = dataclasses.replace(fleet, documents=own)
    wanted = contents.wanted(kept, enrol.seen_by(run, fleet, known, still=False))
    told = [*strangers.values(), *_silent(run, fleet, known), *wanted.differences]
    newer = [key for key in wanted.documents if _is_newer(kept, key)]
    documents = {key: document for key, document in wanted.documents.items() if key not in newer}
    if run.dry:
        return Audited(bool(documents), told, sorted(documents), newer, False)
    mended, busy = yield from _mended(kept, documents)
    for name, document in fleet.documents.items():
        yield from hosts.report(name, document, run.now())
        yield from hosts.tidied(document["uuid"], still=False)
    return Audited(bool(mended), told, mended, sorted([*newer, *busy]), False)


def _is_newer(kept: contents.Kept, key: str) -> bool:
    """Whether it has changed since the instances were read, from which it follows."""
    return key in kept.found and kept.found[key].revision > kept.revision


def _mended(kept: contents.Kept, documents: Mapping[str, Any]) -> Procedure[Tuple[List[str], List[str]]]:
    """One by one: a run that changes one of them meanwhile keeps the others from nothing. An instance goes with its part of the quota,
    so that an audit that is cut off leaves no part with nobody."""
    mended: List[str] = []
    busy: List[str] = []
    expected = {key: keys.document(key, kept.found.get(key)) for key in documents}
    # instances that a run changes meanwhile, and their quotas, which may have the value again that they had
    theirs: Set[str] = set()
    for key in sorted(documents, key=lambda each: (not each.startswith(keys.INSTANCES), each)):
        of_quota = _of_quota(key, expected[key], documents[key])
        change = functools.partial(_mend, expected=expected, key=key, document=documents[key], of_quota=of_quota)
        concerned = {each for each in (key, documents[key], expected[key]) if isinstance(each, str)}
        if theirs.isdisjoint(concerned) and (yield from transacted(change, closed=True)):
            mended.append(key)
            expected.update(
                {quota: _exchanged(expected[quota], *of_quota[quota]) for quota in of_quota if quota in expected}
            )
        else:
            busy.append(key)
            theirs.update([key[len(keys.INSTANCES) :], *of_quota])
    return mended, busy


def _of_quota(key: str, before: Any, now: Any) -> Dict[str, Tuple[Document, Document]]:
    """Of an instance: the key of its quota, with what it takes of that ``before`` and ``now``."""
    if not key.startswith(keys.INSTANCES):
        return {}
    same = before and before["project"] == now["project"]
    return {keys.quota(now["project"]): (before["amounts"] if same else {}, now["amounts"])}


def _exchanged(used: Any, before: Document, now: Document) -> Document:
    return holdings.more(holdings.less(used or {}, before), now)


def _mend(
    draft: Draft, expected: Document, key: str, document: Any, of_quota: Mapping[str, Tuple[Document, Document]]
) -> Procedure[bool]:
    """Return whether it is as it is to be. ``expected``: by key, what those to be mended are by what this audit knows."""
    quotas = [quota for quota in of_quota if quota in expected]
    yield from draft.read(key, *quotas)
    if draft.get(key) == document:
        return True  # the answer was lost
    if draft.get(key) != expected[key]:
        return False
    if document is None:
        draft.remove(key)
    else:
        draft.put(key, document)
    for quota in quotas:
        draft.put(quota, _exchanged(draft.get(quota), *of_quota[quota]))
    return True


def _strangers(meta: enrol.Meta, known: Mapping[str, str], fleet: Fleet) -> Dict[str, Difference]:
    """The hosts that do not belong to the registry: what they have is no matter of it."""
    found: Dict[str, Difference] = {}
    for host, document in fleet.documents.items():
        mark = document.get("registry")
        is_of = enrol.is_of(mark, meta.document)
        if not is_of or document["uuid"] not in known:
            said = "no registry" if is_of or not mark else "the registry %s" % mark["incarnation"]
            found[host] = Difference(
                host, "it belongs to %s. %s" % (said, registry_hints.enrol_host(host)), mends=False
            )
    return found


def _silent(run: enrol.Run, fleet: Fleet, known: Mapping[str, str]) -> List[Difference]:
    there = set(fleet.uuids().values())
    silent = sorted(name for uuid, name in known.items() if uuid not in there and not {uuid, name} & set(run.lost))
    return [
        Difference(name, "it does not say what it has: %s" % fleet.verdicts.get(name, "it is not asked"), mends=False)
        for name in silent
    ]
