# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume that grows: the larger size is claimed, then confirmed or given back, and only then does its file grow (C26, I7)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from instance_case import Killed
from volume_case import DB, kill_before_write, make_house, named

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import new_volume, virtual_size
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.update_disks import update_disks
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import facts
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.volume_store import confirmed_gb, grows, size_gb
from ansible_collections.berth.kvm.plugins.module_utils.model import hints, volume_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import CannotResizeDisk
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import VolumeConflict, VolumeInUse, VolumeNotFound

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")


@pytest.fixture
def house(prepared, wanted, monkeypatch):
    return make_house(prepared, wanted, monkeypatch)


@pytest.fixture
def web(house):
    """An instance of 1 GiB with a volume db of 2, on a host of 10."""
    web = house.guest()
    web.make(named(new=True))
    return web


def wanted(web, size_gb=5, **parts):
    return {"name": "db", "size_gb": size_gb, "instance": web.uuid, **parts}


def claim(house, web, size_gb=5, token="t2", **parts):
    return new_volume.claim_growth(house.host, wanted(web, size_gb, **parts), token)


def sizes(house):
    """(what counts, what the file may have) in GiB."""
    return size_gb(house.volume()), confirmed_gb(house.volume())


def file_gb(house):
    return virtual_size.read(str(house.file()), "qcow2")[0] >> 30


def grow_file(web):
    return update_disks(web.instance(), [], [named(size_gb=5)])


def test_a_growth_counts_from_its_claim_and_the_file_grows_once_it_is_confirmed(house, web):
    web.instance().stopped(1)
    assert claim(house, web) is True and sizes(house) == (5, 2)
    with pytest.raises(BerthError, match="ClaimFailed"):
        house.guest("web2").claim(named("logs", size_gb=4, new=True))
    with pytest.raises(VolumeConflict, match="a growth to 5 GiB was not claimed"):
        grow_file(web)
    assert file_gb(house) == web.record.spec["volumes"][0]["size_gb"] == 2
    assert new_volume.confirm_growth(house.host, DB, "t2") is True and sizes(house) == (5, 5)
    assert [grow_file(web), grow_file(web)] == [True, False] and file_gb(house) == 5


def test_a_claim_that_is_given_back_leaves_the_volume_as_it_was(house, web):
    before = house.volume()
    claim(house, web)
    assert new_volume.give_growth_back(house.host, DB, "t2") is True
    after = house.volume()
    assert (after.spec, after.resources) == (before.spec, before.resources) and not grows(after)
    assert new_volume.give_growth_back(house.host, DB, "t2") is False


def test_what_was_confirmed_is_not_given_back(house, web):
    claim(house, web)
    new_volume.confirm_growth(house.host, DB, "t2")
    assert new_volume.give_growth_back(house.host, DB, "t2") is False and sizes(house) == (5, 5)


def test_the_room_is_claimed_first_and_a_volume_never_shrinks(house, web):
    with pytest.raises(BerthError) as caught:
        claim(house, web, 20)
    assert caught.value.code == "ClaimFailed" and sizes(house) == (2, 2)
    with pytest.raises(CannotResizeDisk):
        claim(house, web, 1)
    assert claim(house, web, 2) is False


def test_the_next_run_adopts_what_a_killed_one_claimed_and_the_old_one_is_fenced(house, web):
    claim(house, web, token="t2")
    assert claim(house, web, token="t3") is True and sizes(house) == (5, 2)
    assert new_volume.give_growth_back(house.host, DB, "t2") is False
    with pytest.raises(VolumeConflict, match="db was adopted by another run") as caught:
        new_volume.confirm_growth(house.host, DB, "t2")
    assert caught.value.hint == hints.run_again() and sizes(house) == (5, 2)
    assert new_volume.confirm_growth(house.host, DB, "t3") and sizes(house) == (5, 5)


@pytest.mark.parametrize("size_gb", [2, 3, 7])
def test_what_a_killed_run_claimed_becomes_what_the_next_one_wants(house, web, size_gb):
    claim(house, web)
    assert claim(house, web, size_gb, token="t3") is True and sizes(house) == (size_gb, 2)
    assert grows(house.volume()) is (size_gb > 2)
    assert new_volume.give_growth_back(house.host, DB, "t3") is (size_gb > 2) and sizes(house) == (2, 2)


def test_what_was_claimed_before_takes_no_room_again(house, web):
    claim(house, web, 9)
    with pytest.raises(BerthError) as caught:
        claim(house, web, 10, token="t3")
    assert caught.value.code == "ClaimFailed"
    assert claim(house, web, 9, token="t3") is True


def test_what_another_run_has_confirmed_meanwhile_is_nothing_to_claim_or_confirm(house, web):
    claim(house, web)
    new_volume.confirm_growth(house.host, DB, "t2")
    assert claim(house, web, token="t3") is False
    assert new_volume.confirm_growth(house.host, DB, "t3") is False


def test_check_mode_writes_nothing_and_refuses_what_a_run_would(house, web):
    assert new_volume.claim_growth(house.host, wanted(web), "t2", dry=True) is True and sizes(house) == (2, 2)
    with pytest.raises(BerthError):
        new_volume.claim_growth(house.host, wanted(web, 20), "t2", dry=True)
    claim(house, web)
    assert new_volume.confirm_growth(house.host, DB, "t2", dry=True) and new_volume.give_growth_back(
        house.host, DB, "t2", dry=True
    )
    assert sizes(house) == (5, 2)


def test_a_free_volume_grows_for_the_instance_that_is_to_have_it_and_anothers_does_not(house, web):
    web.update()
    assert claim(house, web) and new_volume.confirm_growth(house.host, DB, "t2")
    assert grow_file(web) is True and house.has()[1] == "web1"
    other = house.guest("web2")
    other.make()
    with pytest.raises(VolumeInUse, match="attached to web1"):
        claim(house, other, 6)


def test_only_a_volume_that_is_there_grows(house, web):
    with pytest.raises(VolumeNotFound):
        claim(house, web, name="bd")


@pytest.mark.parametrize("at", ["claim growth", "grow", "update_volumes"])
def test_a_run_killed_before_any_write_is_finished_by_the_next_one(house, web, monkeypatch, at):
    def run(token):
        claim(house, web, token=token)
        new_volume.confirm_growth(house.host, DB, token)
        return grow_file(web)

    kill_before_write(monkeypatch, at)
    with pytest.raises(Killed):
        run("t2")
    assert web.domain.resized == {}
    assert run("t3") is True and sizes(house) == (5, 5)
    assert web.domain.resized == {str(house.file()): 5 << 30}


@pytest.mark.follows("claim_growth")
def test_a_record_from_before_the_volume_grew_is_mended_by_a_growth_and_not_by_the_same_run_again(house, web):
    web.update()
    record = Path(house.host.store.state_dir) / "volumes" / DB / "record.json"
    old = record.read_bytes()
    claim(house, web)
    new_volume.confirm_growth(house.host, DB, "t2")
    grow_file(web)
    record.write_bytes(old)
    for _run in range(2):
        with pytest.raises(VolumeConflict) as caught:
            update_disks(web.instance(), [], None)
        assert caught.value.hint == volume_hints.claim_growth("web1", "db", 5)
    claim(house, web, token="t3")
    new_volume.confirm_growth(house.host, DB, "t3")
    assert grow_file(web) is True and sizes(house) == (5, 5) and house.has()[1] == "web1"


def test_hosts_tell_of_a_growth_until_it_is_confirmed(house, web):
    def told():
        volume = facts._volume(house.volume(), "berth", [], {})
        return volume["size_gb"], volume.get("grows_from_gb")

    claim(house, web)
    assert told() == (5, 2)
    new_volume.confirm_growth(house.host, DB, "t2")
    assert told() == (5, None)


def test_the_history_of_a_volume_tells_of_its_growth(house, web):
    claim(house, web)
    new_volume.give_growth_back(house.host, DB, "t2")
    claim(house, web, 6)
    new_volume.confirm_growth(house.host, DB, "t2")
    told = [(entry["event"], entry["size_gb"]) for entry in house.volume().history if "size_gb" in entry]
    assert told == [("claim growth", 5), ("give growth back", 2), ("claim growth", 6), ("grow", 6)]
