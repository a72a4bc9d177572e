# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance moves with its volume to a host that sees both on one storage, and to no other without a copy."""

from __future__ import annotations

import memory_names as memory
import pytest
from memory_names import D, S
from volume_move_case import BACK, THERE, WAITS, elsewhere, file_of

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.instance import Instance
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.update_disks import update_disks
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import volumes
from ansible_collections.berth.kvm.plugins.module_utils.model import volume_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import VolumeStays


def seen_from_there(fleet, shared):
    """What D says to a move of the instance, whose volume is on another storage and whose disks are where ``shared`` says: the
    hint, or None."""
    move = {"type": "live-migration", "source": {"name": "kvm1"}}
    record = fleet.host(S).store.read(memory.UUID).replace(op="ab" * 16, migration=move)
    try:
        volumes.Volumes(fleet.host(D).compute, fleet.host(D).identity, record).check_seen(shared)
    except VolumeStays as error:
        return error.hint


def test_a_host_with_a_storage_of_its_own_may_get_a_copy_of_the_volume(fleet, tmp_path):
    elsewhere(fleet, tmp_path)
    assert seen_from_there(fleet, False) is None


def test_an_instance_on_one_storage_and_its_volume_not_is_refused_until_the_volume_is_detached(fleet, tmp_path):
    elsewhere(fleet, tmp_path)
    assert seen_from_there(fleet, True) == volume_hints.detach_volumes(memory.NAME, ["db"])
    update_disks(Instance(fleet.host(S).compute, memory.UUID, timeout=1), [], [])
    assert fleet.volume(S).spec["instance"] is None and file_of(fleet).exists()
    assert seen_from_there(fleet, True) is None, "without its volume it may go there"


@pytest.mark.follows("stay_with_boot_volume")
def test_what_boots_from_a_volume_that_is_not_on_the_one_storage_stays_and_is_told_no_detach(make_fleet, tmp_path):
    fleet = make_fleet(boot_index=0)
    elsewhere(fleet, tmp_path)
    assert seen_from_there(fleet, True) == volume_hints.stay_with_boot_volume(memory.NAME, "db")
    assert fleet.host(S).effects.running(memory.UUID)
    with pytest.raises(InvalidInput, match="boots from that"):  # what it is not told to do
        update_disks(Instance(fleet.host(S).compute, memory.UUID, timeout=1), [], [])


def test_what_boots_from_a_volume_goes_to_a_host_that_sees_it_and_back(make_fleet):
    fleet = make_fleet(boot_index=0)
    fleet.went("resize")
    assert fleet.roles() == WAITS and fleet.volume(D).spec["source_image"] == fleet.volume(S).spec["source_image"]
    fleet.went("revert")
    assert fleet.roles() == BACK
    fleet.went("resize")
    fleet.went("confirm")
    assert fleet.roles() == THERE and fleet.host(D).effects.running(memory.UUID)


def test_a_host_that_sees_the_instance_and_not_its_volume_is_refused(fleet, monkeypatch):
    """A mount of the one directory alone, or a file of the same name that is another's."""
    monkeypatch.setattr(volumes.storage, "is_one", lambda _pool, uuid, *_: uuid == memory.UUID)
    done = fleet.run("resize")
    assert "VolumeStays" in (done.error or "it was moved") and fleet.roles() == BACK
