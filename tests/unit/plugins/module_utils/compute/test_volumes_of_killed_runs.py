# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs that are killed after their claims: a volume has one host, the quota holds, and what is run again ends (C26)."""

from __future__ import annotations

import pytest
from procedure_case import run
from volume_case import DB
from volume_fleet_case import Fleet, make_sites

from ansible_collections.berth.kvm.plugins.module_utils.compute import errors
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import volume_claim

VOLUMES = {"db": 2, "logs": 1}


@pytest.fixture
def fleet(make_host, wanted, monkeypatch):
    return Fleet(make_sites(make_host, wanted, monkeypatch), wanted, dict(VOLUMES))


def has(fleet, volume=DB):
    return {name: site.has(volume) for name, site in fleet.sites.items()}


def both_claimed(fleet, one="db", other="db"):
    """Two controllers that read all hosts, then claim on one host each, and are killed."""
    runs = fleet.create("web1", [one], prefer=["kvm1"]), fleet.create("web2", [other], prefer=["kvm2"])
    for _step in range(3):
        for each in runs:
            next(each)


def test_two_runs_killed_after_their_claims_of_one_volume_leave_it_to_whoever_runs_again(fleet):
    both_claimed(fleet)
    assert run(fleet.create("web1", ["db"])).startswith("VolumeConflict")
    assert run(fleet.create("web2", ["db"])) is True
    assert has(fleet) == {"kvm1": None, "kvm2": ("active", "web2", True)}


def test_the_claim_that_a_killed_run_left_is_nothing_to_the_volume_on_another_host(fleet):
    runs = fleet.create("web1", ["db"], prefer=["kvm1"]), fleet.create("web2", ["db"], prefer=["kvm2"])
    for _step in range(2):
        for each in runs:
            next(each)
    assert run(runs[0]) is True
    next(runs[1])
    assert has(fleet) == {"kvm1": ("active", "web1", True), "kvm2": ("claimed", "web2", False)}
    assert [run(fleet.update("web1", ["db"])), run(fleet.create("web1", ["db"]))] == [False, False]
    assert run(fleet.create("web2", ["db"])).startswith("VolumeInUse")
    assert run(fleet.create("web2")) is True and has(fleet)["kvm2"] is None


def test_neither_create_nor_update_disks_makes_a_volume_of_a_lost_host_anew_without_a_word(fleet):
    """Each asks for the one word that names its own instance."""
    assert run(fleet.create("web2", ["db"], prefer=["kvm2"])) is True and run(fleet.update("web2", [])) is True
    assert run(fleet.create("web1", prefer=["kvm1"])) is True
    fleet.sites["kvm2"].up, fleet.lost = False, ["kvm2"]
    assert run(fleet.update("web1", ["db"])).startswith("DataWouldBeLost: volumes of web1 would be made anew")
    assert run(fleet.create("web3", ["db"])).startswith("DataWouldBeLost: web3 would be made empty")
    assert fleet.sites["kvm1"].has(DB) is None
    fleet.rebuilt = ["web1"]
    assert run(fleet.create("web3", ["db"])).startswith("DataWouldBeLost")
    assert run(fleet.update("web1", ["db"])) is True
    assert fleet.sites["kvm1"].has(DB) == ("active", "web1", True)


@pytest.mark.follows("finish_claim")
@pytest.mark.parametrize("names", [("db",), ()], ids=["with it", "without it"])
def test_the_volume_of_a_claim_is_had_or_given_up_by_the_instance_it_was_claimed_for(fleet, names):
    killed = fleet.create("web2", ["db"], prefer=["kvm2"])
    for _step in range(3):
        next(killed)
    said = run(fleet.create("web1", ["db"]))
    assert said.startswith("VolumeInUse: volume db is claimed for web2, which is not built yet")
    assert run(fleet.delete_volume("db")).startswith("VolumeInUse: volume db is claimed for web2")
    assert run(fleet.create("web2", names)) is True
    assert run(fleet.create("web1", ["db"])) is True or names
    assert [pair[1] for pair in has(fleet).values() if pair] == ["web2" if names else "web1"]


def made_on_two_hosts(fleet):
    for name, host in (("web1", "kvm1"), ("web2", "kvm2")):
        assert run(fleet.create(name, prefer=[host])) is True


def claimed_by_updates(fleet, *names):
    """Two runs of update_disks that read all hosts, claim a volume each, and are killed."""
    made_on_two_hosts(fleet)
    runs = [fleet.update(owner, [volume]) for owner, volume in zip(("web1", "web2"), names)]
    for _step in range(3):
        for each in runs:
            next(each)


@pytest.mark.follows("delete_begun_elsewhere")
def test_what_killed_runs_of_update_disks_began_on_two_hosts_is_removed_as_the_hint_says(fleet):
    claimed_by_updates(fleet, "db", "db")
    assert has(fleet) == {"kvm1": ("claimed", None, False), "kvm2": ("claimed", None, False)}
    assert run(fleet.create("web3", ["db"])).startswith("VolumeConflict")  # one of the two may still make it
    for error in ("VolumeConflict", "VolumeElsewhere"):
        assert run(fleet.update("web1", ["db"])).startswith(error)
        assert run(fleet.delete_volume("db")) is True
    assert run(fleet.update("web1", ["db"])) is True


def test_runs_that_were_killed_after_claims_beyond_the_quota_do_not_exceed_it_when_run_again(fleet):
    fleet.quotas = {"default": {"volumes": 1}}
    both_claimed(fleet, "db", "logs")
    assert "Quota exceeded for volumes" in run(fleet.create("web1", ["db"]))
    assert run(fleet.create("web2", ["logs"])) is True
    assert sum(len(site.store.records()) for site in fleet.sites.values()) == 1


def test_a_create_that_takes_the_claim_of_a_killed_update_is_held_to_the_quota(fleet):
    claimed_by_updates(fleet, "db", "logs")
    fleet.quotas = {"default": {"volumes": 1}}
    assert "Quota exceeded for volumes" in run(fleet.create("web3", ["db"]))
    assert has(fleet)["kvm1"] == ("claimed", None, False)
    fleet.quotas = {"default": {"volumes": 2, "gigabytes": 3}}
    assert run(fleet.create("web3", ["db"])) is True, "what is claimed counts once"


def test_a_create_whose_taken_claim_exceeds_the_quota_by_what_another_run_claimed_meanwhile_builds_nothing(fleet):
    made_on_two_hosts(fleet)
    fleet.quotas = {"default": {"volumes": 1}}
    killed, create, other = fleet.update("web1", ["db"]), fleet.create("web3", ["db"]), fleet.update("web2", ["logs"])
    for one, steps in ((other, 2), (killed, 3), (create, 3), (other, 1)):
        for _step in range(steps):
            next(one)
    assert "Quota exceeded for volumes" in run(create)
    assert not any(site.host.store.read(fleet.wanted("web3")[0]["uuid"]) for site in fleet.sites.values())


def test_a_claim_that_cannot_have_its_volumes_after_all_leaves_nothing(fleet, monkeypatch):
    def fails(*_args):
        raise errors.InstanceBusy("the volume is being made")

    with monkeypatch.context() as patch:
        patch.setattr(volume_claim, "attach", fails)
        assert run(fleet.create("web1", ["db"])).startswith("InstanceBusy")
    assert not any(site.host.store.records() + site.store.records() for site in fleet.sites.values())
