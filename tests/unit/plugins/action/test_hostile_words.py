# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTML, escapes of terminals, very long texts and scripts from right to left, in each text that hosts and inventory say."""

from __future__ import annotations

import copy

import pytest
from controller import Controller
from held_case import WEB, held
from receipt_case import create, why
from test_show_instances import DELETED, HOST, KNOWN
from test_show_volume import HISTORY, controller, volume
from test_write_report import ASKED, HOSTILE, VARIABLES, Case, harmless, put, texts

from ansible_collections.berth.kvm.plugins.action import show_volume
from ansible_collections.berth.kvm.plugins.module_utils.conductor import closing_table
from ansible_collections.berth.kvm.plugins.module_utils.model import host_document, safe_text
from ansible_collections.berth.kvm.plugins.plugin_utils import delegates, receipts, screen

WORDS = pytest.mark.parametrize("text", HOSTILE, ids=[ascii(text[:16]) for text in HOSTILE])
FIXED = ("uuid", "role", "phase", "severity", "event", "at")  # what a program compares, not what people read


@pytest.fixture
def case(tmp_path, monkeypatch):
    return Case(tmp_path, monkeypatch)


@pytest.fixture
def only_text(capsys):
    """only_text(lines) checks what was shown since: printable, and on as many lines as we meant; None does not count them."""

    def check(lines):
        shown = capsys.readouterr().out
        assert all(char.isprintable() or char == "\n" for char in shown)
        assert lines is None or shown.count("\n") == lines
        return shown

    return check


def past_the_check(monkeypatch):
    """What is shown is harmless even where the checks of what hosts send fail."""
    monkeypatch.setattr(host_document, "check", lambda document, *_rest: document)


def filled(value, text):
    """A copy in which each text that people read is this one."""
    value = copy.deepcopy(value)
    for path in list(texts(value)):
        if not set(path) & set(FIXED):
            put(value, path, text)
    return value


@WORDS
@pytest.mark.parametrize("answers", [True, False])
def test_no_name_of_the_inventory_is_more_than_text_in_a_report(case, text, answers, only_text):
    """A KVM host, a server group, a policy, an aggregate, a zone and a flavor of this name."""
    answer = case.answers.pop("h3")
    case.answers[text] = answer if answers else {"reason": "UNREACHABLE: " + text}
    case.hosts[2] = text
    case.variables["berth_server_groups"] = {text: {"policy": "anti-affinity"}, "web": {"policy": text}}
    case.variables["berth_aggregates"] = {text: {"hosts": ["h1"], "availability_zone": text}}
    case.variables["berth_flavors"] = {**VARIABLES["berth_flavors"], text: VARIABLES["berth_flavors"]["small"]}
    assert not case.write().get("failed")
    harmless(case)
    only_text(None)


@WORDS
def test_no_text_of_a_host_is_more_than_text_where_the_doctor_shows_it(case, text, only_text):
    before = case.answers["h1"]
    for path in list(texts(before)):
        if path[-1] not in ("role", "phase", "severity", "uuid", "type", "code"):
            put(before, path, text)
    case.silence("h3", text)
    case.controller().run("doctor", {"asked": ASKED})
    assert "h2" in only_text(None)


@WORDS
@pytest.mark.parametrize("known", [KNOWN, DELETED], ids=["there", "deleted"])
def test_no_text_of_a_host_is_more_than_text_where_an_instance_is_shown(known, text, only_text, monkeypatch):
    past_the_check(monkeypatch)
    told = {"instances": [{**filled(known, text), "history": [{**known["history"][0], "who": text, "reason": text}]}]}
    monkeypatch.setattr(delegates, "run_on", lambda names, *_rest: {name: {**told, "foreign": []} for name in names})
    own = [held(group=text, task_state=text, vm_state=text, flavor={"name": text})] if known is KNOWN else []
    facts = {"ansible_facts": {"berth_host": {**HOST, "instances": own, "num_instances": len(own), "volumes": []}}}
    gone = {} if own else {WEB: {"known": None, "planned": [], "gone": [3, 0]}}
    it = Controller({"kvm_hosts": ["h1"], "vms": ["web1"]}, {"web1": {"berth_flavor": "small"}})
    it.register("localhost", __berth_facts={"answers": {"h1": {**facts, "notes": gone}}})
    values = {**it.task_vars(), "ansible_forks": 5, "ansible_play_hosts_all": ["localhost"]}
    it.run("show_instances", {"instances": ["web1"]}, values)
    assert "web1" in only_text(None)


@WORDS
def test_no_text_of_a_host_is_more_than_text_where_a_volume_is_shown(text, only_text, monkeypatch):
    def ask(_action, _task_vars, _names, _module, _arguments, own):
        said = [{**HISTORY[0], "who": text, "run": text, "instance": text}]
        told = {"generation": [1, 4], "image": text, "history": said}
        return {host: {"volumes": [{"uuid": uuid, **told} for uuid in uuids]} for host, uuids in own["uuids"].items()}

    past_the_check(monkeypatch)
    monkeypatch.setattr(show_volume, "ask", ask)
    controller(h1=([held(name=text)], [{**volume(), "pool": text}])).run("show_volume", {"name": "db"})
    assert "db (" in only_text(None)


@WORDS
def test_no_field_of_the_closing_table_is_more_than_text(text, only_text):
    fields = ("instance", "state", "host", "flavor", "address", "why", "error")
    rows = [closing_table.Outcome(**{"instance": "web1", "state": "active", field: text}) for field in fields]
    attempts = [{"attempt": number, "host": text, "code": text, "cause": text} for number in (1, 2)]
    lines = closing_table.closing(rows, {text: text}, closing_table.tried(text, WEB, attempts))
    assert screen.say(*lines) == [str(safe_text.visible(line)) for line in lines]
    only_text(len(lines))


@WORDS
def test_no_text_of_a_decision_is_more_than_text_where_why_shows_it(text, only_text, monkeypatch):
    """A receipt is a file: whoever may write it may write anything."""
    create()
    explained = receipts.explained

    def told(*args):
        return [{**filled(request, text), "name": request["name"]} for request in explained(*args)]

    monkeypatch.setattr(receipts, "explained", told)
    why("web1")
    assert "web1" in only_text(None)
