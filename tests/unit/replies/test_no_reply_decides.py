# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No reply decides: one of three hosts lies in replies that are valid, and by that nothing is done to an instance of
another host, nothing secret is told, nobody is told what that host chose, and no run crashes: see lied_verdict.py.

The lies come from the schema, so a new field is covered by itself. This is a sample of a few lies in some playbooks;
``all_lies.py`` plays them all.
"""

from __future__ import annotations

from types import SimpleNamespace

import all_lies
import good
import lied_verdict
import pytest
import schema_lies
from lied_fleet import IDS, LIAR

from ansible_collections.berth.kvm.plugins.module_utils.conductor import gossip, locate
from ansible_collections.berth.kvm.plugins.module_utils.conductor import notes as of_all
from ansible_collections.berth.kvm.plugins.module_utils.conductor.planned_move import Walk
from ansible_collections.berth.kvm.plugins.module_utils.model import reply, shape
from ansible_collections.berth.kvm.plugins.module_utils.model.reply_shapes import REPLIES

pytestmark = pytest.mark.long

SAMPLED = {"create": 3, "stop": 3, "delete": 3, "resize": 3, "migrate past the liar": 2, "delete_volume": 2}
DOCUMENTS = ("ansible_facts", "builds", "move")  # in each, every part is lied about, and the whole in no way


@pytest.mark.parametrize("name", SAMPLED)
def test_whatever_one_host_says_the_others_are_told_nothing_that_it_chose(name):
    played, found = all_lies.findings(name, seed=1, most=SAMPLED[name])
    assert played == SAMPLED[name] and not found, "\n".join(map(str, found))


@pytest.mark.parametrize(
    "wrong", [{"uuid": IDS["at-rest-h3"]}, {"uuid": None}, {"instance_uuids": [IDS["at-rest-h3"]]}], ids=str
)
def test_a_request_in_a_move_that_is_of_another_instance_or_of_none_is_refused_and_ends_no_run(wrong):
    """The others' moves were not even planned."""

    def with_request(said):
        request = {**said["moves"][0]["spec"], **wrong}
        return ("moves", 0, "spec"), {part: value for part, value in request.items() if value is not None}

    given, said = good.host_facts(LIAR)
    assert not all_lies.is_valid("host_facts", said, given, with_request(said))
    assert all_lies.finding_of("resize", "host_facts", with_request) == []


def test_every_field_of_every_reply_has_lies():
    """Also one that no good reply has."""
    for module, check in REPLIES.items():
        for name, part in check.fields.items() if isinstance(check, shape.Object) else ():
            assert name in DOCUMENTS or schema_lies.samples(part, all_lies.WORDS), (module, name)


def test_a_lie_in_a_field_that_is_new_is_made_from_its_check():
    new = shape.object_of({"mode": shape.choice("on", "off"), "at": shape.or_null(shape.generation)}, optional=("at",))
    made = list(schema_lies.lies(new, {"mode": "on"}, all_lies.WORDS))
    assert (("mode",), "off") in made and any(at == ("at",) and new({"mode": "on", "at": put}) for at, put in made)


def test_most_lies_pass_the_check_of_replies():
    """Else they would be no lies, and the host would only have said nothing."""
    given, good_reply = good.rescan(LIAR)
    made = [lie for lies in all_lies.lies("rescan", good_reply).values() for lie in lies]
    assert sum(all_lies.is_valid("rescan", good_reply, given, lie) for lie in made[::20]) > len(made[::20]) / 3


# ---- the runner sees what it is for: defects that are put in ----------------------------------------------------------


def owned_by_the_liar(said):
    """That it owns another host's instance, of a later generation."""
    at = ("ansible_facts", "berth_host", "instances")
    own = next(each for each in said[at[0]][at[1]][at[2]] if each["name"] == "at-rest-" + LIAR)
    names = {IDS["at-rest-" + LIAR]: IDS["at-rest-h2"], "at-rest-" + LIAR: "at-rest-h2"}
    return at, [*said[at[0]][at[1]][at[2]], schema_lies.counted(schema_lies.renamed(own, names), [9, 0])]


def test_the_runner_sees_a_host_whose_word_decides_who_owns_an_instance(monkeypatch):
    """As if of two owners the later one counted."""
    assert all_lies.finding_of("stop", "host_facts", owned_by_the_liar) == []
    before = locate.holders

    def later_wins(fleet, name, uuid, lost_hosts=()):
        places = fleet.places.get(uuid, [])
        places[:] = sorted(places, key=lambda place: place["generation"])[-1:]
        return before(fleet, name, uuid, lost_hosts)

    monkeypatch.setattr(locate, "holders", later_wins)
    assert [each[0] for each in all_lies.finding_of("stop", "host_facts", owned_by_the_liar)] == ["instead"]


def noted(**note):
    """What it remembers of another host's instance."""
    whole = {"known": None, "planned": [], "after": 0, "gone": None, "left": None, **note}
    return lambda _said: (("notes",), {IDS["at-rest-h2"]: whole})


def test_the_runner_sees_words_of_a_host_in_what_others_are_told(monkeypatch):
    """As if what a host remembers were passed on as what this run has found out."""
    lie = noted(known={"host": "h3", "host_uuid": good.UUIDS["h3"], "generation": [1, 9]})
    assert all_lies.finding_of("confirm", "host_facts", lie) == []
    before = gossip.whereabouts

    def passes_on(fleet):
        told = before(fleet)
        for notes in fleet.notes.values():
            for uuid, note in notes.items():
                if note["known"]:
                    told["known"].setdefault(note["known"]["host_uuid"], {})[uuid] = note["known"]["generation"]
        return told

    monkeypatch.setattr(gossip, "whereabouts", passes_on)
    assert "known" in {each[1] for each in all_lies.finding_of("confirm", "host_facts", lie)}


def test_the_runner_sees_that_one_host_says_of_anothers_instance_that_it_is_gone(monkeypatch):
    """As if nobody had to have heard that the host had the instance."""
    assert all_lies.finding_of("create", "host_facts", noted(gone=[9, 0])) == []
    monkeypatch.setattr(of_all, "_vouched_for", set)
    assert "gone" in {each[1] for each in all_lies.finding_of("create", "host_facts", noted(gone=[9, 0]))}


def test_the_runner_sees_a_move_whose_request_comes_from_its_source(monkeypatch):
    """As if the destination built what the source says, not what was decided."""

    def lie(_said):
        return ("move", "migration", "new_spec", "image", "name"), "web"

    assert all_lies.finding_of("migrate from the liar", "migration", lie) == []
    before = Walk._decided

    def as_the_source_says(walk):
        said = walk.said["source"].get("migration") or {}
        return {**before(walk), "spec": said.get("new_spec", walk.move.spec)}

    monkeypatch.setattr(Walk, "_decided", as_the_source_says)
    assert "migration" in {each[1] for each in all_lies.finding_of("migrate from the liar", "migration", lie)}


def test_of_two_hosts_of_one_uuid_neither_is_taken_and_nothing_else_changes():
    lie = ("ansible_facts", "berth_host", "uuid"), good.UUIDS["h2"]
    assert all_lies.finding_of("create", "host_facts", lambda _said: lie) == []


def test_secrets_builds_on_two_hosts_and_harmful_commands_are_findings():
    uuid, new = IDS["at-rest-h2"], IDS["new-1"]
    seed = {"builds": [{"uuid": uuid, "seed": {}}, {"uuid": new, "seed": {}}]}
    asked = [(LIAR, "build_instances", seed), *((host, "build_instances", seed) for host in lied_verdict.OTHERS)]
    texts = [
        "Give it up: -e berth_lost_hosts=h2",
        "Undefine it: virsh undefine --nvram %s" % uuid,
        "-e berth_lost_hosts=h1",
    ]
    run = SimpleNamespace(asked=asked, texts=texts)
    assert list(lied_verdict.secrets(run, set())) == [("build_instances", uuid)]
    assert lied_verdict.built_twice(run) == {uuid, new}
    assert lied_verdict.harmful(run) == {"berth_lost_hosts=h2", "virsh undefine --nvram " + uuid}


def test_the_runner_sees_a_reply_that_is_not_checked(monkeypatch):
    monkeypatch.setattr(reply, "check", lambda _module, said, *_more: said)
    found = all_lies.finding_of("create", "rescan", lambda _said: (("instances",), None))
    assert [each[0] for each in found] == ["crash"]
