# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a host says with its facts that its instances are as their records say, create says what it says when each of them takes a
run of its own."""

from __future__ import annotations

import concurrent.futures
import json
import re

import fake_fleet
import good
import pytest

pytestmark = pytest.mark.long

ALL = ("at-rest-h1", "at-rest-h2", "at-rest-h3")
DRIFT = {"now": [["vcpus", "1", "2"]], "next_start": []}
OFF = {"state": "shutdown", "power_state": "shutdown", "vm_state": "stopped"}


def said(name, **more):
    return {**good.shown(good.record(name)), "flavor": "small", **more}


def settled(name, **more):
    return good.look(good.record(name), instance=said(name, **more))


# What a situation is: options of the run, variables of instances, what the instance of each host is, and what each host looks to say.
ONE_OF_EACH = {
    "is": {"h2": {"domain_differs": DRIFT}},
    "looks": {"h1": [settled("at-rest-h1")]},
    "own": {"at-rest-h2", "at-rest-h3"},
}
SITUATIONS = {
    "one unchanged, one changed in libvirt, one on a host that does not say": ONE_OF_EACH,
    "in check mode": {**ONE_OF_EACH, "run": ["--check"]},
    "with --limit": {**ONE_OF_EACH, "run": ["--limit", "at-rest-h1,at-rest-h2"], "own": {"at-rest-h2"}},
    "off where it is to run, locked, and off as nothing says otherwise": {
        "vars": {
            "at-rest-h1": {"berth_state": "active"},
            "at-rest-h2": {"berth_state": "stopped", "berth_locked": "ann"},
        },
        "is": {"h1": OFF, "h3": OFF},
        "looks": {
            "h1": [settled("at-rest-h1", **OFF)],
            "h2": [settled("at-rest-h2")],
            "h3": [settled("at-rest-h3", **OFF)],
        },
        "own": {"at-rest-h1"},
    },
    "the inventory says another flavor by now": {
        "vars": {"at-rest-h1": {"berth_flavor": "big"}},
        "looks": {"h1": [settled("at-rest-h1")], "h2": [settled("at-rest-h2")], "h3": [settled("at-rest-h3")]},
        "own": set(),
    },
    "a host that answers for another's": {
        "looks": {
            "h1": [settled("at-rest-h1"), settled("at-rest-h2"), settled("at-rest-h3")],
        },
        "own": {"at-rest-h2", "at-rest-h3"},
    },
}


def play(folder, situation, looks):
    def reply(host):
        made = {**fake_fleet.replies(host)}
        made["instance"] = {
            "changed": False,
            "instance": said("at-rest-" + host, **situation.get("is", {}).get(host, {})),
        }
        made["host_facts"]["looks"] = looks.get(host, [])
        return made

    def change(tree):
        hosts = tree["all"]["children"]["instances"]["hosts"]
        hosts["at-rest-h1"] = {}
        del hosts["new-1"]
        for name, given in situation.get("vars", {}).items():
            hosts[name] = given

    return fake_fleet.play(folder, ["create", *situation.get("run", ())], change=change, replies=reply)


def own_runs(done):
    asked = [json.loads(line) for lines in done["asked"].values() for line in lines]
    builds = [build for each in asked if each["module"] == "build_instances" for build in each["arguments"]["builds"]]
    return [build["spec"]["name"] for build in builds]


def test_a_create_with_nothing_to_do_asks_each_host_once(runs):
    done = runs["the inventory says another flavor by now", "looked"]
    asked = {host: [json.loads(line)["module"] for line in lines] for host, lines in done["asked"].items()}
    assert asked == dict.fromkeys(("h1", "h2", "h3"), ["host_facts"])


def words(done):
    """The table; which tasks and plays Ansible shows above it depends on whether one has to run at all."""
    table = re.search(r"^INSTANCE\s.*?(?=^(?:ok|skipping|changed): )", done["stdout"], re.M | re.S)
    return table and table.group()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Each situation with hosts that say nothing of their instances, and with hosts that do."""
    folder = tmp_path_factory.mktemp("looks")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        futures = {
            (name, kind): pool.submit(play, folder / str(at) / kind, situation, looks)
            for at, (name, situation) in enumerate(SITUATIONS.items())
            for kind, looks in (("each", {}), ("looked", situation["looks"]))
        }
    return {key: future.result() for key, future in futures.items()}


@pytest.mark.parametrize("name", SITUATIONS)
def test_create_says_the_same_as_when_each_takes_a_run_of_its_own(name, runs):
    each, looked = runs[name, "each"], runs[name, "looked"]
    assert words(each) and words(looked) == words(each)
    assert looked["rc"] == each["rc"] == 0, looked["said"][-3000:]
    assert re.search(r"^at-rest-h1\s+(unchanged|active)", looked["stdout"], re.M)


@pytest.mark.parametrize("name", SITUATIONS)
def test_only_what_its_own_host_proves_unchanged_takes_no_run_of_its_own(name, runs):
    assert sorted(own_runs(runs[name, "looked"])) == sorted(SITUATIONS[name]["own"])
