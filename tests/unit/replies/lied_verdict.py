# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a lie changed: what each other host is told, against the honest run and one in which the liar does not answer."""

from __future__ import annotations

import json
import re

import good
from lied_fleet import AT_REST, IDS, LIAR

from ansible_collections.berth.kvm.plugins.module_utils.conductor.miscounting import LEAP

NONCE = re.compile("0f0{10}[0-9a-f]{20}")
HARMFUL = re.compile(r"berth_lost_hosts=[\w,.-]+|virsh (?:undefine|destroy|shutdown) [^\n]*?[\w-]{36}")
NEW = {IDS["new-1"], IDS["new-2"]}
DECIDED = ("kind", "spec", "source", "lost", "when_due", "crashed")
OTHERS = [host for host in good.HOSTS if host != LIAR]
AT_OTHERS = {IDS[name] for name, host in AT_REST.items() if host != LIAR}
# What a host that writes a false record of its own instance before a move begins does not choose: see docs/security.md.
NOT_ITS_WORD = ("name", "uuid", "project_id")
PLACED = ("claim", "claims", "build_instances", "builds", "withdraw", "failed", "planned", "ended")


def text_of(value):
    return NONCE.sub("nonce", json.dumps(value, sort_keys=True, default=str))


def placed(entry):
    """What is to be built, without what placement adds from what all hosts say: who else is in the server group."""
    kept = {part: value for part, value in entry.items() if part not in ("limits", "after")}
    if (kept.get("spec") or {}).get("group"):
        kept["spec"] = {**kept["spec"], "group": {**kept["spec"]["group"], "members": []}}
    return kept


def atoms(host, module, given):
    """What one question tells the host, in parts that can be compared one by one: (host, what, text)."""
    rest = dict(given)
    rest.pop("about", None)  # of what it is asked to say what it remembers
    for name in ("claims", "withdraw", "failed", "builds"):
        for entry in rest.pop(name, None) or ():
            yield host, name, text_of(placed(entry))
            if entry.get("after"):
                yield host, "after", text_of([entry["spec"]["uuid"], entry["after"][0]])
    for name, value in (rest.pop("told", None) or {}).items():
        if name in ("known", "gone"):
            yield from (
                (host, name, text_of([owner, held])) for owner, all_held in value.items() for held in all_held.items()
            )
        else:
            yield from ((host, name, text_of(entry)) for entry in (value.items() if isinstance(value, dict) else value))
    if "peer" in rest:  # what the other side of the move says
        yield host, "peer", text_of([rest["uuid"], rest.pop("peer")])
    yield host, module, text_of(placed(rest) if module == "migration" else rest)


def of(run):
    return {atom for host, module, given in run.asked if host != LIAR for atom in atoms(host, module, given)}


def harmful(run):
    """The commands in what people read that give up another host or remove a guest that is there."""
    texts = [text for text in map(str, run.texts) if "give up nothing" not in text]  # it says when the command is wrong
    found = HARMFUL.findall("\n".join(texts))
    named = {*OTHERS, *(good.UUIDS[host] for host in OTHERS), *AT_OTHERS}
    return {command for command in found if named & set(re.split(r"[ =,]", command))}


def counted_further(run):
    """The instances of which an owner was asked to count its record further than anybody says: it keeps the record."""
    asked = [(host, given) for host, module, given in run.asked if module == "instance"]
    return {
        given["uuid"]
        for host, given in asked
        if given.get("state") == "recorded" and given["uuid"] == IDS.get("at-rest-" + host)
    }


def moved(run):
    """The instances of which the liar was asked to do a step of a move."""
    return {given["uuid"] for host, module, given in run.asked if host == LIAR and module == "migration"}


class Legal:
    """``honest``, ``silent``: the run without a lie, and those in which the liar, or it and another, does not answer."""

    def __init__(self, honest, *silent):
        self.honest, self.told = of(honest), of(honest).union(*map(of, silent))
        self.anywhere = {atom[1:] for atom in self.told}
        self.harmful = harmful(honest).union(*map(harmful, silent))
        # Of these the liar has a part or gets one: it could damage them anyway.
        self.its_own = {IDS["at-rest-" + LIAR], IDS["resized"]} | moved(honest)

    def findings(self, run):
        """What the liar must not have brought about: [(what, detail)]."""
        made, own = of(run), self.its_own | counted_further(run)
        before = isinstance(run.fleet.lie, tuple) and run.fleet.lie[0] == "host_facts"
        found = [atom for atom in sorted(made - self.told) if not self.may_differ(atom, own, before)]
        found += [
            ("instead", *atom)
            for atom in sorted(self.honest - made)
            if atom[1] == "instance" and asked_instead(run, atom, own)
        ]
        found += [("secret", *of_one) for of_one in secrets(run, own)]
        found += [("twice", uuid) for uuid in sorted(built_twice(run))]
        return found + [("hint", command) for command in sorted(harmful(run) - self.harmful)]

    def may_differ(self, atom, own, before):
        """Whether it is a placement elsewhere, or the liar's word about itself: docs/security.md says what it may say, and that
        it may say more ``before`` anything was decided."""
        _host, what, text = atom
        said = json.loads(text)
        if what in PLACED and (what, text) in self.anywhere:
            return True
        if what in ("planned", "ended"):
            on_it = said["host_uuid"] not in [good.UUIDS[host] for host in OTHERS]  # on itself, under whatever uuid
            return said["run"] == "r-1" and (said["uuid"] in own or on_it)
        if what == "withdraw":  # this run's own claim, which it makes elsewhere
            return said["uuid"] in NEW and said["token"] == "nonce"
        if what == "hosts":
            its_own = said[0] == good.UUIDS[LIAR] or (said[1] == LIAR and said[0] not in good.UUIDS.values())
            return its_own or good.UUIDS.get(said[1]) == said[0]
        if what == "known":  # that it has something, or that one of its own is somewhere
            return said[0] == good.UUIDS[LIAR] or said[1][0] in own
        if what == "gone":
            return said[1][0] in own or self.is_counted_on(what, said, said[1][1])
        if what == "after":
            return said[0] in own | NEW and said[1] < 2 * LEAP
        if what == "migration":
            return said["uuid"] in own and self.is_as_decided(said, before)
        if what == "instance" and said.get("after"):
            if said["state"] == "recorded" and said["uuid"] in own or self.is_counted_on(what, said, said["after"]):
                return True
        return what in ("peer", "instance", "rescan") and self.is_about_its_own(what, said, own)

    def is_counted_on(self, what, said, generation):
        """Whether it is to be removed anyway, after all that anybody has heard of it: up to LEAP one host alone may have."""
        return generation[0] < LEAP and uncounted(what, said) in self.uncounted(what)

    def uncounted(self, what):
        return {uncounted(of_atom, json.loads(text)) for of_atom, text in self.anywhere if of_atom == what}

    def is_about_its_own(self, what, said, own):
        if what == "instance":  # how often it was written is the liar's to say, and where it is
            return said["uuid"] in own and uncounted(what, said) in self.uncounted(what)
        return said == {} if what == "rescan" else said[0] in own

    def is_as_decided(self, given, its_word):
        """How far a move has come is the word of both sides; what was decided of it is not. ``its_word``: the liar said before
        what is moved."""
        moves = [json.loads(text) for what, text in self.anywhere if what == "migration"]
        allowed = {atom for move in moves if move["uuid"] == given["uuid"] for atom in decided(move, its_word)}
        return decided(given, its_word) <= allowed


def uncounted(what, said):
    """That an instance is gone, or a request to a host about one, without the generation."""
    return text_of([said[0], said[1][0]] if what == "gone" else {**said, "after": None})


def decided(given, its_word):
    """{(part, text)} of what was decided of a move."""
    parts = {part: given[part] for part in DECIDED if part in given}
    if its_word and parts.get("spec"):
        parts["spec"] = {part: parts["spec"][part] for part in NOT_ITS_WORD}
    return {(part, text_of(value)) for part, value in parts.items()}


def asked_instead(run, atom, own):
    """Whether the liar was asked to do it with another host's instance, and that host was not."""
    uuid = json.loads(atom[2])["uuid"]
    asked = {given["uuid"] for host, module, given in run.asked if host == LIAR and module == "instance"}
    return uuid in asked - own - NEW


def other_claimed(module, value):
    """The host whose uuid the liar says is its own, or None: of two hosts of one uuid neither is taken."""
    return next((host for host in OTHERS if module == "host_facts" and value == good.UUIDS[host]), None)


def secrets(run, own):
    """What the liar got of the secrets of an instance that it does not have and that is not new."""
    for host, module, given in run.asked:
        for each in given.get("builds") or [given] if host == LIAR else ():
            if ("seed" in each or "key" in each) and each["uuid"] not in NEW | own:
                yield module, each["uuid"]


def built_twice(run):
    """The instances that more than one of the honest hosts was asked to build; each builds what it is asked."""
    asked = {
        (each["uuid"], host) for host, _module, given in run.asked for each in given.get("builds") or () if host != LIAR
    }
    uuids = [uuid for uuid, _host in asked]
    return {uuid for uuid in uuids if uuids.count(uuid) > 1}
