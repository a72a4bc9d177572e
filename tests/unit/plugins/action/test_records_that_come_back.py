# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which record or copy of an instance comes back by recover_record and keep_one, and what keeps it away."""

from __future__ import annotations

import uuid

import pytest
from held_case import held

from ansible_collections.berth.kvm.plugins.module_utils.conductor import (
    keep_one,
    outcome_of_operation,
    what_to_operate,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.operate import Done
from ansible_collections.berth.kvm.plugins.module_utils.model import copy_hints, hints
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils import driving

ADDRESS = "address 192.0.2.7 on bridge br0"
WITHOUT_RECORD = {"role": None, "generation": None, "phase": None, "vm_state": None, "foreign": True, "managed": True}
OTHER = {"uuid": instance_uuid("default", "web2"), "name": "web2"}


@pytest.mark.follows("one_keeps_the_address")
@pytest.mark.parametrize("entry", [ADDRESS, "MAC address 52:54:00:00:00:07"])
@pytest.mark.parametrize(
    "other", [{}, {"role": "CLAIM", "phase": "claimed"}, WITHOUT_RECORD], ids=["", "claim", "guest"]
)
def test_no_record_comes_back_whose_address_another_has_by_now(locate, entry, other):
    """It was given to the other while the host was silent."""
    here, there = held(**WITHOUT_RECORD, nics=[entry]), held(**{**OTHER, **other}, nics=[entry])
    located = locate("recover_record", {}, h1=[here], h2=[there])
    assert (
        located["found"] == []
        and "web1 cannot be restored on h1: web2 on h2 now has its %s" % entry in located["errors"]["web1"]
    )
    assert copy_hints.one_keeps_the_address("web1") in located["errors"]["web1"]
    assert locate("recover_record", {}, h1=[here], h2=[])["found"] == ["web1"], "as the hint says"
    assert locate("recover_record", {}, h1=[here], h2=[held(**OTHER, nics=["address 192.0.2.8"])])["found"] == ["web1"]


@pytest.mark.parametrize("comes_back", [True, False])
def test_no_copy_that_was_set_aside_comes_back_while_another_has_its_address(locate, monkeypatch, comes_back):
    """Which one comes back is in conductor/test_keep_one.py."""
    monkeypatch.setattr(keep_one, "choose", lambda *_what: keep_one.Choice("h1", [], [1, 0], comes_back))
    here, run = held(phase="setting_aside", nics=[ADDRESS]), {"berth_keep_on": "h1"}
    located = locate("keep_one", run, h1=[here], h2=[held(**OTHER, nics=[ADDRESS])])
    assert ("AddressTaken" in located["errors"].get("web1", "")) is comes_back
    assert locate("keep_one", run, h1=[here], h2=[])["errors"] == {}


@pytest.mark.follows("one_keeps_the_address")
def test_a_copy_of_which_only_files_are_left_waits_for_its_address_without_a_record_and_with_it(locate, monkeypatch):
    """keep_one asks for its addresses, then writes the record, then looks again, as a claim does."""

    held_by_files = []
    told = {"changed": False, "instance_copy": {"nics": held_by_files}}
    monkeypatch.setattr(
        driving, "ask_each", lambda _action, _vars, module, arguments, *_: dict.fromkeys(arguments, told)
    )

    def looked(listed, here, there):
        monkeypatch.setattr(keep_one, "choose", lambda *_what: keep_one.Choice("h1", [], [1, 0], True, listed))
        return locate("keep_one", {"berth_keep_on": "h1"}, h1=here, h2=there)

    other, back = [held(**OTHER, nics=[ADDRESS])], [held(phase="setting_aside", nics=[ADDRESS])]
    assert looked(True, [], other)["instances"]["web1"]["listed"], "they have other addresses"
    held_by_files.append(ADDRESS)
    refused = looked(True, [], other)
    assert refused["instances"] == {} and copy_hints.one_keeps_the_address("web1") in refused["errors"]["web1"]
    assert looked(True, [], [])["instances"]["web1"]["listed"]
    located = looked(False, back, other)
    assert located["found"] == [] and copy_hints.one_keeps_the_address("web1") in located["errors"]["web1"]
    assert looked(False, back, [])["found"] == ["web1"]


@pytest.mark.follows("lock_again")
def test_that_a_lock_was_lost_with_the_record_is_said_with_what_locks_it_again(locate):
    found = locate("recover_record", {}, h1=[held(**WITHOUT_RECORD)])
    assert found["notes"]["web1"] == copy_hints.lock_again("web1")
    said = outcome_of_operation.outcome("recover_record", "web1", found, Done(changed=True), False)
    assert said.why == copy_hints.lock_again("web1")
    assert locate("lock", {}, h1=[held()])["found"] == ["web1"], "which finds it once it has its record"
    assert locate("recover_record", {}, h1=[held()])["notes"] == {"web1": None}, "nothing was lost"


@pytest.mark.follows("confirm_or_revert_left")
def test_the_destination_of_a_move_gets_its_record_with_the_moves_end_and_what_removes_the_sources_part(locate):
    moved_to = {"op": "ab" * 16, "host_uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, "h2"))}
    source = held(role="OUT", phase="keep", generation=[4, 0], moved_to=moved_to, power_state="shutdown")
    located = locate("recover_record", {}, h1=[source], h2=[held(**WITHOUT_RECORD)])
    task = located["instances"]["web1"]
    assert (task["hosts"], task["after"], task["moved_by"]) == (["h2"], [4, 0], {"op": "ab" * 16, "epoch": 4})
    assert located["shown"] == {"web1": {}}, "not the host that let go of it"
    assert located["notes"]["web1"].endswith(hints.confirm_or_revert_left("web1", "h1"))
    elsewhere = {**source, "moved_to": {**moved_to, "host_uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, "h3"))}}
    assert locate("recover_record", {}, h1=[elsewhere], h2=[held(**WITHOUT_RECORD)])["found"] == []


def test_of_an_older_record_that_becomes_the_latest_no_lock_is_lost(locate, monkeypatch):
    """It is raised as it is, see compute/record/record_copy.py."""
    monkeypatch.setattr(what_to_operate, "locate_to_take_back", lambda *_what: ["h1"])
    found = locate("recover_record", {}, h1=[held()])
    assert found["found"] == ["web1"] and found["notes"] == {"web1": None}


@pytest.mark.parametrize("named, said", [("h9", "h9"), ("h2", "a KVM host that answers: h1")])
def test_a_copy_continues_on_a_host_that_answers(locate, named, said):
    refused = locate("recover_record", {"berth_recover_on": named}, h1=[held(**WITHOUT_RECORD)], h2=None)
    assert refused["found"] == [] and said in refused["errors"]["web1"]


def test_the_host_whose_copy_continues_is_the_one_that_a_person_names(locate, monkeypatch):
    chosen = []
    monkeypatch.setattr(what_to_operate, "locate_to_take_back", lambda *what: chosen.append(what[4]) or ["h1"])
    locate("recover_record", {"berth_recover_on": "h1"}, h1=[held(**WITHOUT_RECORD)])
    locate("recover_record", {}, h1=[held(**WITHOUT_RECORD)])
    assert chosen == ["h1", None]
