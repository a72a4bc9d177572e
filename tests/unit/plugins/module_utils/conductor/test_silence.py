# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of hosts that did not say what they hold."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import (
    duplicate_hosts,
    keep_one,
    locate,
    sides,
    silence,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import (
    HostNotLost,
    HostUnknown,
    InstanceUnknown,
    RecordOutdated,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import Fleet, read_fleet
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import hosts
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, hints, host_hints
from ansible_collections.berth.kvm.plugins.plugin_utils import host_reply, why_silent

BARE, BROKEN = "HostNotPrepared: the host h1 is not prepared", "LibvirtUnavailable: no"


def test_the_reason_of_a_host_that_is_there_can_stand_in_a_sentence():
    assert silence.describe("h1", {"h1": BARE}) == "h1 (which is there, but: %s)" % BARE
    assert silence.describe("h1", {"h1": "UNREACHABLE: no route"}) == "h1, which does not answer"


@pytest.mark.follows("mend_host")
def test_a_host_that_is_not_prepared_is_to_be_prepared_and_others_are_to_be_repaired_and_not_switched_off():
    """Their guests run."""
    assert silence.hint(["h1", "h2"], {"h1": BARE, "h2": BARE}) == host_hints.prepare_host("h1,h2")
    assert silence.hint(["h1", "h2"], {"h1": BARE, "h2": BROKEN}) == fleet_hints.mend_host("h1, h2")
    assert "off" not in silence.hint(["h2"], {"h2": BROKEN})
    assert silence.hint(["h1", "h2"], {"h1": BARE, "h2": "UNREACHABLE: no route"}) == host_hints.prepare_host("h1")


@pytest.mark.follows("make_login_work")
def test_a_host_that_lets_nobody_log_in_is_not_to_be_given_up_as_lost(monkeypatch):
    """Its sshd answers, so its guests may run."""
    monkeypatch.setattr(why_silent, "verbosity", lambda: 0)
    told = {"unreachable": True, "msg": "ssh: Host key verification failed."}
    reasons = {"h1": host_reply.answer_of(told)["reason"], "h2": "UNREACHABLE: no route"}
    assert silence.describe("h1", reasons) == "h1, which lets nobody log in"
    assert silence.hint(["h1", "h2"], reasons) == fleet_hints.make_login_work(["h1"])
    assert "log in once by hand" in reasons["h1"] and "lost" not in fleet_hints.make_login_work(["h1"])
    assert silence.hint(["h2"], reasons) == hints.bring_back_or_lost(["h2"])


def test_a_host_that_the_registry_does_not_know_may_be_named_as_lost_and_one_that_answers_not():
    """As after a remove_host that was killed: it is in the inventory still, and nobody asks it."""
    unknown = hosts.reports({}, ["h1"], {})["h1"]["reason"]
    silence.check_lost(["h1"], {"h1": unknown})
    with pytest.raises(HostNotLost, match="h1 is there, but"):
        silence.check_lost(["h1"], {"h1": BARE})


OFF = dict.fromkeys(("h1", "h2"), "UNREACHABLE: no route")
KNOWN = {"host": "h1", "host_uuid": "id-h1", "generation": [2, 0]}
NOTED = {"known": KNOWN, "planned": [], "after": 0, "gone": None, "left": None}
OWNER = {"uuid": "u", "role": "OWN", "generation": [1, 0], "phase": "active"}
LEFT = {
    "role": "OUT",
    "op": "op",
    "generation": [2, 0],
    "migration": {"source": {"name": "h3", "uuid": "id-h3"}, "destination": {"name": "h2", "uuid": "id-h2"}},
}


def seen(*instances):
    """h3 answers, and remembers h1 as the owner; h1 and h2 do not."""
    document = {"uuid": "id-h3", "instances": [{"foreign": False, **instance} for instance in instances]}
    return Fleet({"h3": document}, OFF, {"id-h3": {"u": NOTED}})


@pytest.mark.follows("bring_back_or_lost")
@pytest.mark.parametrize(
    "run",
    [
        lambda lost: locate.locate(Fleet({}, OFF), "web1", "u", lost),
        lambda lost: locate.locate(seen(OWNER), "web1", "u", lost),
        lambda lost: keep_one.choose(seen(OWNER), "web1", "u", "h3", False, lost),
        lambda lost: sides.find("u", "web1", {"h3": {"u": LEFT}}, {"id-h3": "h3"}, OFF, lost),
    ],
    ids=["nowhere", "an older record", "keep_one", "a move"],
)
def test_who_has_given_up_one_host_is_told_to_name_it_again_beside_the_next(run):
    """Word for word, a run would otherwise give up the one or the other, and never both."""
    with pytest.raises((InstanceUnknown, RecordOutdated, HostUnknown)) as told:
        run(["h2"])
    assert told.value.hint == hints.bring_back_or_lost(["h1"], ["h2"])
    assert told.value.hint.endswith(" -e berth_lost_hosts=h2,h1")


@pytest.mark.follows("listed_twice")
def test_two_names_of_one_machine_are_a_fault_of_the_inventory_and_nothing_is_to_be_switched_off():
    reports = {name: {"document": {"uuid": "same", "instances": []}} for name in ("h1", "h2")}
    refused = read_fleet(reports, dict).verdicts
    assert silence.hint(["h1"], refused) == fleet_hints.listed_twice("h1")
    alone, another = {"h1": reports["h1"]}, {"document": {"uuid": "another", "instances": []}}
    assert "set another host_uuid" in fleet_hints.listed_twice("h1")
    for mended in (alone, {**alone, "h2": another}):
        assert read_fleet(mended, dict).verdicts == {}


@pytest.mark.follows("take_one_out")
def test_each_name_of_one_machine_says_to_take_all_but_one_of_them_out_of_the_inventory():
    reports = {name: {"document": {"uuid": "same", "instances": []}} for name in ("h1", "h2", "h3")}
    refused = read_fleet(reports, dict).verdicts
    assert set(refused) == set(reports) and all(said.endswith(fleet_hints.take_one_out()) for said in refused.values())
    assert read_fleet({"h1": reports["h1"]}, dict).verdicts == {}


def test_a_host_with_the_uuid_of_a_silent_one_is_no_fault_of_the_inventory_and_has_a_code_of_its_own():
    note = {"known": {"host": "h2", "host_uuid": "same", "generation": [1, 0]}}
    reports = {
        "h1": {"document": {"uuid": "same", "instances": []}},
        "h2": {"reason": "UNREACHABLE: no route"},
        "h3": {"document": {"uuid": "other", "instances": []}, "notes": {"web": note}},
    }
    refused = read_fleet(reports, dict).verdicts
    assert silence.has_code(refused["h1"], duplicate_hosts.TAKEN)
    assert silence.hint(["h1"], refused) == fleet_hints.mend_host("h1")
