# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume is attached to an instance, grown and detached; a step that is killed is finished by the next run (C26)."""

from __future__ import annotations

from xml.etree import ElementTree

import fake_libvirt
import pytest
from instance_case import Killed
from volume_case import NEEDS_QEMU_IMG, named

from ansible_collections.berth.kvm.plugins.module_utils.compute import errors
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.update_disks import (
    update_disks,
    would_update_disks,
)
from ansible_collections.berth.kvm.plugins.module_utils.model import volume_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import ACTIVE
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import CannotResizeDisk

pytestmark = NEEDS_QEMU_IMG


@pytest.mark.parametrize("runs", [True, False])
def test_update_attaches_and_detaches_and_each_again_is_no_change(house, runs):
    old, web = house.guest("old"), house.guest()
    old.make(named(new=True))
    old.delete()
    web.make()
    if not runs:
        web.instance().stopped(1)
    assert would_update_disks(web.instance(), [], [named()]) and house.has() == (ACTIVE, None, True)
    assert [web.update(named()), web.update(named())] == [True, False]
    assert house.has() == (ACTIVE, "web1", True) and web.named_by_guest() == ["db"]
    assert update_disks(web.instance(), []) is False  # what is not named at all stays as it is
    assert would_update_disks(web.instance(), [], []) and house.has() == (ACTIVE, "web1", True)
    assert [web.update(), web.update()] == [True, False]
    assert house.has() == (ACTIVE, None, True) and web.named_by_guest() == []
    assert bool(web.domain.isActive()) is runs


UPDATES = ["volumes record", "volumes attach", "disks attach", "disks note"]


@pytest.mark.parametrize("step", UPDATES)
def test_an_attach_killed_at_a_step_is_finished_and_nobody_else_gets_the_volume_after_its_record_says_so(house, step):
    old, web = house.guest("old"), house.guest()
    old.make(named(new=True))
    old.delete()
    web.make()
    with pytest.raises(Killed):
        web.update(named(), killed_at=step)
    if step != UPDATES[0]:
        with pytest.raises(BerthError, match="VolumeInUse"):
            house.guest("web2").claim(named())
    assert web.update(named()) is True
    assert house.has() == (ACTIVE, "web1", True) and web.named_by_guest() == ["db"]


@pytest.mark.parametrize("step", ["disks detach", "volumes release", "volumes record"])
def test_a_detach_killed_at_a_step_is_finished_and_the_volume_is_no_others_before(house, step):
    web = house.guest()
    web.make(named(new=True))
    with pytest.raises(Killed):
        web.update(killed_at=step)
    with pytest.raises(BerthError, match="VolumeInUse"):
        house.guest("web2").claim(named())
    assert web.update() is True
    assert house.has() == (ACTIVE, None, True) and web.named_by_guest() == []


@pytest.mark.follows("unmount")
def test_a_guest_that_does_not_let_go_keeps_the_volume(house, monkeypatch):
    monkeypatch.setattr("ansible_collections.berth.kvm.plugins.module_utils.compute.guest.update_disks.TIMEOUT", 0.1)
    web = house.guest()
    web.make(named(new=True))
    web.domain.holds_on = True
    with pytest.raises(errors.DiskNotDetached) as caught:
        web.update()
    assert caught.value.hint == volume_hints.unmount("web1", "volume db")
    assert house.has() == (ACTIVE, "web1", True) and web.record.spec["volumes"] == [named()]
    assert web.named_by_guest() == ["db"], (
        "at its next start it has it, too: nothing differs, and nobody is told to mend it"
    )
    web.domain.holds_on = False  # it is unmounted
    assert web.update() is True and house.has() == (ACTIVE, None, True)


@pytest.mark.parametrize("user", [None, "a device"])
@pytest.mark.follows("stop_and_update_disks")
def test_a_volume_that_qemu_has_unknown_to_libvirt_is_free_only_when_its_file_is_closed(house, user):
    """libvirtd died as it attached the volume, and by now the volume is not wanted any more."""
    web = house.guest()
    web.make(named(new=True))
    web.update()
    with pytest.raises(Killed):
        web.update(named(), killed_at="disks attach")
    file = str(house.file())
    web.domain.nodes = {"libvirt-5-storage": (file, "libvirt-5-format"), "libvirt-5-format": (file, user)}
    if user:
        with pytest.raises(errors.DiskNotDetached, match="QEMU still has it open"):
            web.update()
        assert house.has() == (ACTIVE, "web1", True)
        web.instance().stopped(1)
        web.domain.nodes = {}
    assert web.update() is True and house.has() == (ACTIVE, None, True) and not web.domain.nodes


def test_what_the_guest_refuses_is_told_where_qemu_itself_cannot_be_asked(house, monkeypatch):
    def no_monitor(*_asked):
        raise fake_libvirt.libvirtError(1, "the monitor is not there")

    web = house.guest()
    web.make(named(new=True))
    web.update()
    web.domain.takes_no_more = True
    monkeypatch.setattr(fake_libvirt.QemuPart, "qemuMonitorCommand", no_monitor)
    with pytest.raises(errors.DiskNotAttached, match="No more available PCI slots"):
        web.update(named())


def test_qemu_itself_is_not_asked_of_a_volume_that_libvirt_detaches(house, monkeypatch):
    """libvirt marks a guest whose QEMU was asked past it as tainted."""
    monkeypatch.setattr(fake_libvirt.QemuPart, "qemuMonitorCommand", lambda *_asked: pytest.fail("QEMU was asked"))
    web = house.guest()
    web.make(named(new=True))
    assert web.update() is True


def test_a_volume_grows_and_never_shrinks_and_its_room_is_claimed_first(house):
    web = house.guest()
    web.make(named(new=True))
    web.instance().stopped(1)
    with pytest.raises(BerthError) as caught:
        web.update(named(size_gb=20))
    assert caught.value.code == "ClaimFailed" and house.volume().resources["disk_gb"] == 2
    assert [web.update(named(size_gb=5)), web.update(named(size_gb=5))] == [True, False]
    assert house.volume().resources["disk_gb"] == 5
    with pytest.raises(CannotResizeDisk):
        web.update(named(size_gb=4))


def test_growth_killed_after_its_room_was_claimed_is_finished(house):
    web = house.guest()
    web.make(named(new=True))
    for step in ("volumes record", "disks grow"):
        with pytest.raises(Killed):
            web.update(named(size_gb=4), killed_at=step)
    assert web.update(named(size_gb=4)) is True
    assert house.volume().resources["disk_gb"] == 4 and web.domain.resized == {str(house.file()): 4 << 30}


def test_a_volume_detached_by_hand_is_attached_again(house):
    web = house.guest()
    web.make(named(new=True))
    web.domain.xml = web.domain.xml.replace(str(house.file()), "/gone")
    found = ElementTree.fromstring(web.domain.xml)
    for element in found.find("devices").findall("disk"):
        if element.find("source").get("file") == "/gone":
            found.find("devices").remove(element)
    web.domain.xml = ElementTree.tostring(found, encoding="unicode")
    assert house.has() == (ACTIVE, "web1", True)  # still its own: nobody else gets it
    assert web.update(named()) is True and web.named_by_guest() == ["db"]
