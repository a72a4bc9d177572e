# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""prepare_hosts and remove_host change which hosts belong to the fleet, all hosts are told, and create asks for a majority."""

from __future__ import annotations

import pytest
from controller import Controller
from placement_case import VM, controller, facts

from ansible_collections.berth.kvm.plugins.plugin_utils import delegates

UUIDS = {name: facts(name)["berth_host"]["uuid"] for name in ("h1", "h2", "h3", "h4")}
ALL = {uuid: {"name": name, "changes": 1} for name, uuid in UUIDS.items()}
SILENT = {"unreachable": True, "failed": True, "msg": "no route to host"}


def agree(monkeypatch, lists, check_mode=False):
    """``lists``: host -> what it remembers, None if it does not answer. Return (result, host -> what it was told)."""
    told = {}

    def run_on(hosts, module, arguments, *_limits):
        told.update({host: arguments[host]["told"]["members"] for host in hosts if "told" in arguments[host]})
        reply = {"changed": False, "instances": [], "volumes": [], "notes": {}}
        seen = {host: {**reply, "host_uuid": UUIDS[host], "members": lists[host] or {}} for host in hosts}
        return {host: SILENT if lists[host] is None else seen[host] for host in hosts}

    monkeypatch.setattr(delegates, "run_on", run_on)
    return Controller({"kvm_hosts": list(lists)}).run("agree_on_members", check_mode=check_mode), told


def test_all_hosts_that_answer_remember_which_belong_to_the_fleet(monkeypatch):
    result, told = agree(monkeypatch, dict.fromkeys(UUIDS, {}))
    assert told == dict.fromkeys(UUIDS, ALL) and result["added"] == ["h1", "h2", "h3", "h4"] and result["changed"]
    result, told = agree(monkeypatch, dict.fromkeys(UUIDS, ALL))
    assert (result["changed"], told) == (False, {}), "the second run changes nothing"


def test_check_mode_tells_no_host(monkeypatch):
    result, told = agree(monkeypatch, dict.fromkeys(UUIDS, {}), check_mode=True)
    assert result["changed"] and told == {}


def test_with_too_few_answers_the_list_stays_as_it_was(monkeypatch):
    result, told = agree(monkeypatch, {"h1": ALL, "h2": None, "h3": None, "h4": {}})
    assert (result["changed"], told) == (False, {})


@pytest.mark.parametrize("without, code", [(None, "NoMajority"), ("true", None)])
def test_create_needs_the_answers_of_more_than_half_unless_a_person_says_so(without, code):
    it = controller({"web": VM}, {"berth_without_majority": without} if without else {}, silent=["h3", "h4"])
    found = {name: {"ansible_facts": facts(name), "members": ALL} for name in ("h1", "h2")}
    silent = dict.fromkeys(("h3", "h4"), {"reason": "UNREACHABLE: no route to host"})
    it.register("localhost", __berth_facts={"answers": {**found, **silent}})
    result = it.run("placement", {"instances": ["web"], "plan": True})
    assert (result["failures"].get("web") or {}).get("code") == code
    if code:
        assert "only 2 of the 4 hosts of the fleet answer, not h3, h4" in result["failures"]["web"]["message"]
        assert "berth_without_majority=true" in result["failures"]["web"]["hint"]
