# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hostile replies of h1, each through the door and then through what is decided from such replies.

None crashes: what comes of it is a plain, bounded reply or a typed error of h1. None decides: what h1 did not rightly
say is as if it had said nothing. None stops the others: what is decided of the instances on h2 and h3 is the same.
"""

from __future__ import annotations

import contextlib
import json
from types import SimpleNamespace

import good
import pytest
from plain_data import changed, texts

from ansible_collections.berth.kvm.plugins.module_utils.conductor import (
    build_results,
    fleet,
    groups,
    moving,
    outcome_of_create,
    placing,
    plan,
    quotas,
    sides,
    unconfirmed,
    what_to_create,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor import (
    commit as commits,
)
from ansible_collections.berth.kvm.plugins.module_utils.model import host_document
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.reply_shapes import REPLIES
from ansible_collections.berth.kvm.plugins.module_utils.model.safe_text import TEMPLATE
from ansible_collections.berth.kvm.plugins.module_utils.placement.explain import fleet_text
from ansible_collections.berth.kvm.plugins.plugin_utils import host_reply

DOCUMENTS = {path.stem: json.loads(path.read_text("utf-8")) for path in (good.HERE / "documents").glob("*.json")}
OF_A_FAILURE = {"failed", "changed", "msg", "error_code", "retryable", "error", "warnings"}
LARGEST, DEEPEST = 4 << 20, 24


# ---- what the host sends ---------------------------------------------------------------------------------------------


def text_of(value):
    """A reply as JSON text; see make_documents.py for what begins with "$"."""
    if isinstance(value, dict) and len(value) == 1:
        name, amount = next(iter(value.items()))
        special = {
            "$raw": lambda: amount,
            "$long": lambda: json.dumps("x" * amount),
            "$deep": lambda: "[" * amount + "]" * amount,
            "$many": lambda: "[%s0]" % ("0," * amount),
        }
        if name in special:
            return special[name]()
    if isinstance(value, dict):
        return "{%s}" % ",".join("%s:%s" % (json.dumps(name), text_of(part)) for name, part in value.items())
    return "[%s]" % ",".join(map(text_of, value)) if isinstance(value, list) else json.dumps(value)


def through_the_door(module, arguments, text, host="h1"):
    """What the action of the module gives to Ansible when the host sends this text."""
    action = SimpleNamespace(
        _task=SimpleNamespace(delegate_to=host), _execute_module=lambda **_how: json.loads(text), _connection=None
    )
    if module in ("systemd_service", "service", "package"):
        return host_reply._checked(action, module, arguments, {}, lambda: json.loads(text))
    return host_reply.run_module(action, module, arguments, {})


def good_results(kind):
    module, make = good.KINDS[kind]
    made = {host: make(host) for host in good.HOSTS}
    return {host: through_the_door(module, given, text_of(reply), host) for host, (given, reply) in made.items()}


# ---- what is true of everything that comes through -------------------------------------------------------------------


def depth(value):
    parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(depth, parts), default=0)


def check_harmless(module, result):
    known = OF_A_FAILURE if result.get("failed") else {"changed", "warnings", *REPLIES[module].fields}
    assert set(result) <= known
    assert set(result.get("ansible_facts", {})) <= ({"berth_host"} if module == "host_facts" else set())
    assert len(json.dumps(result, allow_nan=False)) <= LARGEST and depth(result) <= DEEPEST
    for text in texts(result):
        assert "".join(text.split()).isprintable() or text.replace("\n", "").replace("\t", "").isprintable(), text
        assert not TEMPLATE.search(text), text
    for text in (result.get("msg", ""), *texts(result.get("error")), *result.get("warnings", ())):
        assert text.isprintable(), text


# ---- what is decided, with h1's answer among the good ones -----------------------------------------------------------


def answers(kind, result):
    """Host -> answer as ask_hosts and build_instance give them."""
    return {host: host_reply.answer_of(dict(entry)) for host, entry in {**GOOD[kind], "h1": result}.items()}


def run_plan():
    """Two instances without fixed addresses: one that a silent host may have is refused on all hosts."""
    instances = {
        name: {
            "uuid": instance_uuid("default", name), "name": name, "project": "default",
            "spec": {**good.spec(name), "networks": []}, "host": host, "host_uuid": good.UUIDS[host],
            "alternates": [], "state": "claiming", "token": good.TOKENS[name],
        }
        for name, host in (("new-1", "h1"), ("new-2", "h2"))
    }  # fmt: skip
    made = plan.new_plan("r-1", instances, {host: {"uuid": uuid} for host, uuid in good.UUIDS.items()}, 3)
    plan.prepare_round(made, lambda: "e" * 32)
    return made


def commit(result, kind):
    """-> (the state of new-1 on h1, that of new-2 on h2), and the plan goes on."""
    made = run_plan()
    given = {entry: answers(entry, result if entry == kind else GOOD[entry]["h1"]) for entry in ("claims", "rescans")}
    commits.commit(made, given["claims"], given["rescans"], (), quotas.after_the_claims({"*": {"cores": 1000}}))
    plan.prepare_round(made, lambda: "e" * 32)
    outcome_of_create.creation(made, outcome_of_create.outcomes(made))
    return tuple(made["instances"][name]["state"] for name in ("new-1", "new-2"))


def settle(result, kind):
    made = run_plan()
    for instance in made["instances"].values():
        instance["state"] = plan.BUILDING
    made["build"] = list(made["instances"])
    by_host = answers("builds", result)
    build_results.settle(made, {"new-1": by_host["h1"], "new-2": by_host["h2"]})
    plan.prepare_round(made, lambda: "e" * 32)
    outcome_of_create.creation(made, outcome_of_create.outcomes(made))
    return tuple(made["instances"][name]["state"] for name in ("new-1", "new-2"))


def place(result, kind):
    """-> (the moves of what h1 has a part in, those of the others' instances), after a placement among all."""
    by_host = answers("facts", result)
    reports = {
        host: {"document": answer["ansible_facts"]["berth_host"], "notes": answer.get("notes") or {}}
        if "ansible_facts" in answer
        else {"reason": answer.get("reason") or answer["error"]["message"]}
        for host, answer in by_host.items()
    }
    found = fleet.read_fleet(reports, host_document.check)
    instances = what_to_create.sort_out({"new-3": good.spec("new-3")}, found)
    groups.set_members(instances, found)
    quotas.before_placement(instances, found, {"*": {"cores": 1000}})
    placing.place(instances, found, {}, seed=0)
    fleet_text(list(found.documents.values()), found.verdicts)
    views = {host: {move["uuid"]: move for move in by_host[host].get("moves", ())} for host in found.documents}
    names = {uuid: host for host, uuid in found.uuids().items()}
    moves = {}
    for name in ("at-rest-h1", "resized", "at-rest-h2", "at-rest-h3"):
        for wish in ("move", "confirm", "revert", "delete"):
            with contextlib.suppress(BerthError):
                uuid = instance_uuid("default", name)
                sides_of = sides.find(uuid, name, views, names, found.verdicts)
                sides.check(found, uuid, name, sides_of)
                move = moving.plan(wish, "resize", uuid, name, sides_of, good.spec(name, "big"))
                unconfirmed.is_due(move)
                moves[name, wish] = move["sequence"] or move["place"]
                if move["place"]:
                    moving.request(move["views"]["source"], good.spec(name, "big"), "resize", ["h1"])
    others = {key: move for key, move in moves.items() if key[0] in ("at-rest-h2", "at-rest-h3")}
    return {key: move for key, move in moves.items() if key not in others}, others


KNOWN = {}


def decide(kind, result):
    """What is decided; of what h1 failed of only its text differs, and text decides nothing (see report and verdicts)."""
    key = kind, result.get("error_code") or json.dumps(result)
    if kind == "errors" or key not in KNOWN:
        KNOWN[key] = DECIDE[kind](result, kind)
    return KNOWN[key]


DECIDE = {"claims": commit, "rescans": commit, "builds": settle, "errors": settle, "facts": place}
GOOD = {}
GOOD.update({kind: good_results(kind) for kind in good.KINDS})


def test_the_good_replies_pass_whole_and_bring_what_they_say():
    for kind, results in GOOD.items():
        module, make = good.KINDS[kind]
        for host, result in results.items():
            sent = make(host)[1]
            assert result.get("error_code") != "InvalidReply", result
            assert {name: result.get(name) for name in REPLIES[module].fields if name in result} == {
                name: part for name, part in sent.items() if name in REPLIES[module].fields and name in result
            } or kind in ("instances", "backups", "builds", "builds of a host", "looks", "services"), kind
    assert commit(GOOD["claims"]["h1"], "claims") == ("building", "building")
    assert settle(GOOD["builds"]["h1"], "builds") == ("active", "active")
    mine, others = place(GOOD["facts"]["h1"], "facts")
    assert mine["resized", "confirm"] == "confirm" and others["at-rest-h2", "move"] is True


def test_there_are_at_least_600_documents_for_every_kind_of_reply():
    assert sum(map(len, DOCUMENTS.values())) >= 600
    assert set(DOCUMENTS) == set(good.KINDS)


@pytest.mark.parametrize("kind", sorted(DOCUMENTS))
def test_no_document_crashes_decides_or_stops_the_others(kind):
    module, make = good.KINDS[kind]
    arguments, reply = make("h1")
    ordinary = decide(kind, GOOD[kind]["h1"]) if kind in DECIDE else None
    wrong = []
    for number, document in enumerate(DOCUMENTS[kind]):
        try:
            check_document(kind, module, arguments, reply, document, ordinary)
        except Exception as error:
            wrong.append(
                "%s[%d] %s: %s: %s" % (kind, number, str(document)[:200], type(error).__name__, str(error)[:300])
            )
    assert not wrong, "%d of %d:\n%s" % (len(wrong), len(DOCUMENTS[kind]), "\n".join(wrong[:40]))


def check_document(kind, module, arguments, reply, document, ordinary):
    text = text_of(changed(reply, document["at"], document["put"]))
    result = through_the_door(module, arguments, text)
    check_harmless(module, result)
    refused = result.get("error_code") == "InvalidReply"
    if document["expect"] == "refused":
        # of several builds each has a reply of its own
        parts = [result, *(build["reply"] for build in result.get("builds", ()))]
        assert any(part.get("error_code") == "InvalidReply" for part in parts), "it was let through"
    if document["expect"] == "same":
        assert result == GOOD[kind]["h1"], "it was heard"
    if refused:
        assert "h1" in result["msg"] and module in result["msg"] and result["retryable"] is False
    if kind in DECIDE:
        mine, others = decide(kind, result)
        if document["expect"] == "closed":
            assert others in ("failed", ordinary[1]) or others.items() <= ordinary[1].items(), "it opened something"
        else:
            assert others == ordinary[1], "it decided on another host's instance: %r" % (others,)
        if refused and kind in ("claims", "builds", "facts"):
            assert mine != ordinary[0], "nothing came of it"
