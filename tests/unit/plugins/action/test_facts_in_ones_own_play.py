# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module placement in somebody's own play, after module host_facts: what counts of what Ansible knows of a host."""

from __future__ import annotations

import pytest
from placement_case import VM, controller, facts

from ansible_collections.berth.kvm.plugins.plugin_utils.answers_of_hosts import read_reports


def read(answer, kept):
    """The documents and verdicts of a run that asked the host h1, of which Ansible has facts."""
    it = controller({"a": VM}, more_facts={"h1": facts("h1", **kept)})
    it.register("localhost", __berth_facts={"answers": {"h1": answer}})
    fleet = read_reports({**it.task_vars(), "inventory_hostname": "localhost"}, ["h1"])
    return {name: document["generation"] for name, document in fleet.documents.items()}, fleet.verdicts


@pytest.mark.parametrize("kept", [6, 900])
def test_what_a_host_answers_in_this_run_counts_and_not_the_facts_of_another(kept):
    """S16: also of a higher generation: a host that was restored as a whole counts on from its backup."""
    assert read({"ansible_facts": facts("h1", generation=7)}, {"generation": kept}) == ({"h1": 7}, {})


def test_facts_say_nothing_of_a_host_that_is_silent_in_this_run():
    """S16"""
    assert read({"reason": "UNREACHABLE"}, {"generation": 9}) == ({}, {"h1": "UNREACHABLE"})


def test_facts_count_of_a_host_that_this_run_has_not_asked():
    """S05"""
    placed = controller({"a": VM}, more_facts={"h1": facts("h1", memory_mb=1)}).run("placement", {"instances": ["a"]})
    assert placed["selections"]["a"]["host"] == "h2" and not placed["verdicts"]


def test_the_cell_of_a_host_is_the_inventorys_word_alone():
    """C02"""
    told = {name: facts(name, cell="liar") for name in ("h1", "h2")}
    it = controller({"a": VM, "h1": {"berth_host_cell": "north"}}, more_facts=told)
    fleet = read_reports({**it.task_vars(), "inventory_hostname": "localhost"}, ["h1", "h2"])
    assert [fleet.documents[name].get("cell") for name in ("h1", "h2")] == ["north", None]
