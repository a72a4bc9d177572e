# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the host of an instance alone knows lies beside its disks, so that another one takes its volumes over with it."""

from __future__ import annotations

import json

import pytest
from instance_case import Killed, dying
from small_disks import make_by_qemu
from volume_case import DB, NEEDS_QEMU_IMG, House, make_house, named

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import attached, disk_chain, owner
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import CopyNotOutdated, DisksUnfit
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import power, set_aside, start, take_over
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.update_disks import update_disks
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import ACTIVE
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import VolumeElsewhere

pytestmark = NEEDS_QEMU_IMG
LOST, LIVING = "11111111-3c6e-5d59-9d0b-3a1c9d7f1e2a", "22222222-3c6e-5d59-9d0b-3a1c9d7f1e2a"
THIRD = "33333333-3c6e-5d59-9d0b-3a1c9d7f1e2a"
STEPS = ["take over", "take volumes", "start define", "start permit", "start guest", "start done"]


@pytest.fixture
def house(make_host, wanted, monkeypatch):
    """The host that is lost."""
    return make_house(make_host("kvm1"), wanted, monkeypatch)


@pytest.fixture
def lost(house):
    web = house.guest()
    web.make(named(new=True))
    house.host.connection.lose_power()
    return web


@pytest.fixture
def other(make_host, wanted, monkeypatch, house):
    host = make_host("kvm2", LIVING, pool=house.host.pool)
    make_by_qemu(host, monkeypatch, 10)
    return House(host, wanted)


def kept(web):
    return attached.read(str(web.host.pool), web.uuid)


def claimed(other, lost):
    """The claim of a run that has read what lies beside the disks."""
    web = other.guest()
    web.claim(*({**entry, "new": True} for entry in kept(lost)["volumes"]))
    return web


def run(web, killed_at=None, **more):
    return take_over.take_over(web.instance(killed_at), "t1", LOST, **more)


def owners(web):
    pool = str(web.host.pool)
    return owner.read(pool, web.uuid), owner.read(pool, DB, paths.volume)


def test_what_an_instance_has_lies_beside_its_disks_from_its_first_definition_on(house):
    web = house.guest()
    with pytest.raises(Killed):
        web.make(named(new=True), killed_at="start guest")
    assert kept(web) == {"volumes": [named()], "nics": []}


def test_other_hosts_see_it_of_the_disks_of_another_alone(house, other, lost):
    pools = [str(house.host.pool)]
    told = [{"uuid": lost.uuid, "owner": LOST, "volumes": [named()], "nics": []}]
    assert attached.of_others(pools, [lost.uuid, THIRD], LIVING) == told
    assert attached.of_others(pools, [lost.uuid], LOST) == []
    (lost.root.parent / attached.FILE).write_text("[")
    assert attached.of_others(pools, [lost.uuid], LIVING) == [{"uuid": lost.uuid, "owner": LOST}]


def test_a_volume_is_named_there_before_the_guest_gets_it_and_no_more_before_it_is_free(house):
    old, web = house.guest("old"), house.guest()
    old.make(named(new=True))
    old.delete()
    web.make()
    with pytest.raises(Killed):
        web.update(named(), killed_at="volumes attach")
    assert kept(web)["volumes"] == [named()]
    web.update(named())
    with pytest.raises(Killed):
        web.update(killed_at="volumes release")
    assert kept(web)["volumes"] == [] and house.has() == (ACTIVE, "web1", True)


def test_a_guest_that_an_earlier_version_has_defined_has_it_from_its_next_start_on(house):
    web = house.guest()
    web.make(named(new=True))
    (web.root.parent / attached.FILE).unlink()
    web.instance().stopped(1)
    assert kept(web) is None
    web.instance().started()
    assert kept(web) == {"volumes": [named()], "nics": []}


def test_it_is_nothing_strange_beside_the_disks(house):
    web = house.guest()
    web.make(named(new=True))
    disk_chain.check_beside(house.host, web.record)


@pytest.mark.parametrize("killed_at", [None, *STEPS])
def test_a_volume_comes_with_its_instance_whatever_ends_the_run(lost, other, killed_at):
    web, content = claimed(other, lost), other.file().read_bytes()
    if killed_at:
        with pytest.raises(Killed):
            run(web, killed_at)
    if web.record.role == "CLAIM":
        assert owners(web) == (LOST, None)
        run(web)
    web.instance().started()
    assert other.has() == (ACTIVE, "web1", True) and other.volume().role == "OWN"
    assert owners(web) == (LIVING, LIVING) and other.file().read_bytes() == content
    assert web.named_by_guest() == ["db"] and web.record.spec["volumes"] == [named()]
    web.update()
    assert other.has() == (ACTIVE, None, True), "it is a volume like others"


def test_with_one_that_is_to_be_off_it_comes_too(lost, other):
    web = claimed(other, lost)
    run(web, left_off=True)
    assert other.has() == (ACTIVE, "web1", True) and owners(web) == (LIVING, LIVING)
    assert web.instance().started() is not None and web.named_by_guest() == ["db"]


@pytest.mark.parametrize("killed_at", [None, *STEPS[3:]])
def test_the_lost_host_uses_nothing_of_it_when_it_is_back(house, lost, other, boot, killed_at):
    web = claimed(other, lost)
    with dying(killed_at):
        run(web, killed_at)
    boot("two")
    for act in (lost.instance().started, lambda: power.recover(lost.instance())):
        with pytest.raises(BerthError):
            act()
    assert not lost.domain.isActive()
    with pytest.raises(BerthError, match="VolumeElsewhere"):
        house.guest("web2").claim(named())
    web.instance().started()
    assert web.domain.isActive()


def test_what_the_lost_host_has_of_it_is_put_away_without_the_volume(house, lost, other, boot):
    web = claimed(other, lost)
    run(web)
    boot("two")
    set_aside.set_aside(lost.instance(), 0)
    assert lost.record is None and house.store.read(DB) is None
    assert other.has() == (ACTIVE, "web1", True) and web.root.exists()


def test_a_volume_that_is_not_named_beside_the_disks_is_not_taken(lost, other):
    """It may have been freed, and be another instance's since."""
    web = claimed(other, lost)
    (lost.root.parent / attached.FILE).write_text(json.dumps({"volumes": [], "nics": []}))
    with pytest.raises(DisksUnfit, match="to be taken over with db"):
        run(web)
    assert web.record is None and other.volume() is None and other.file().exists() and owners(lost) == (LOST, None)


def test_an_instance_is_not_taken_over_without_the_volumes_that_it_has(lost, other):
    web = other.guest()
    web.claim()
    with pytest.raises(DisksUnfit, match="to be taken over with no volumes"):
        run(web)
    assert web.record is None


def test_a_volume_of_a_third_host_is_not_taken(lost, other):
    web = claimed(other, lost)
    owner.write(str(lost.host.pool), DB, THIRD, paths.volume)
    with pytest.raises(VolumeElsewhere):
        run(web)
    assert web.record is None and other.volume() is None and other.file().exists()


def test_a_volume_that_is_larger_than_what_is_kept_is_not_taken(lost, other):
    """Its growth was not told: which of both is newer, nobody knows."""
    (lost.root.parent / attached.FILE).write_text(json.dumps({"volumes": [named(size_gb=1)], "nics": []}))
    with pytest.raises(DisksUnfit, match="volume db of web1 has"):
        run(claimed(other, lost))


def test_a_claim_that_a_killed_run_left_is_gone_with_its_volume_and_the_file_stays(lost, other):
    web = claimed(other, lost)
    web.instance().absent()
    assert web.record is None and other.volume() is None and other.file().exists() and owners(lost) == (LOST, None)


def test_a_volume_that_had_moved_to_the_lost_host_is_taken_from_it(lost, other):
    owner.write(str(lost.host.pool), DB, LOST, paths.volume)
    web = claimed(other, lost)
    with pytest.raises(Killed):
        run(web, "start define")
    assert owners(web) == (LOST, LOST)
    start.check(web.instance(), web.record)
    web.instance().started()
    assert owners(web) == (LIVING, LIVING)
    assert update_disks(web.instance(), []) is False


FORGET = ["stopping", "setting aside", "permit", "stop", "domain", "volumes", "record"]


@pytest.mark.parametrize("killed_at", [None, *FORGET])
def test_a_host_that_is_back_forgets_what_was_taken_over_and_touches_no_disk(house, lost, other, boot, killed_at):
    web = claimed(other, lost)
    run(web)
    boot("two")
    files = {path.name: path.read_bytes() for path in web.root.parent.iterdir()}
    assert set_aside.check_outdated(lost.instance(), LIVING) == lost.record, "a look changes nothing"
    if killed_at:
        with pytest.raises(Killed):
            set_aside.remove_outdated(lost.instance(killed_at), LIVING)
    if lost.record:
        set_aside.remove_outdated(lost.instance(), LIVING)
    assert (lost.record, lost.domain, house.store.read(DB)) == (None, None, None)
    assert {path.name: path.read_bytes() for path in web.root.parent.iterdir()} == files
    assert set_aside.listed(lost.host.store) == {} and owners(web) == (LIVING, LIVING)
    assert other.has() == (ACTIVE, "web1", True) and web.domain.isActive()


@pytest.mark.parametrize("of", [LOST, THIRD, None], ids=["itself", "a third host", "nobody"])
def test_a_copy_whose_disks_are_not_proven_to_be_the_new_owners_is_kept(lost, boot, of):
    """As that of an instance which was made again elsewhere, from a backup: what was written last is only here."""
    boot("two")
    (lost.root.parent / owner.FILE).unlink()
    if of:
        owner.write(str(lost.host.pool), lost.uuid, of)
    before = lost.record
    with pytest.raises(CopyNotOutdated, match="no file beside its disks says"):
        set_aside.remove_outdated(lost.instance(), LIVING)
    assert lost.record == before and lost.root.exists() and lost.domain is not None


def test_a_copy_whose_guest_runs_is_left_to_a_person(house):
    web = house.guest()
    web.make(named(new=True))
    owner.write(str(house.host.pool), web.uuid, LIVING)
    with pytest.raises(CopyNotOutdated, match="its guest runs there"):
        set_aside.remove_outdated(web.instance(), LIVING)
    assert web.domain.isActive() and web.record.phase == ACTIVE
