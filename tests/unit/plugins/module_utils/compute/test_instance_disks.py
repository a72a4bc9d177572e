# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest whose disks are not those of its record is neither started nor deleted, and can always be stopped (I3, I11)."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import pytest
from fake_libvirt import RUNNING, SHUTOFF
from instance_case import Case
from records import plant
from volume_case import NEEDS_QEMU_IMG, named

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk.disk_chain import Difference
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import BuildFailed, DiskChainChanged, DisksUsed
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import instance as instances
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import moving_host
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.module_utils.compute.run import run
from ansible_collections.berth.kvm.plugins.module_utils.model import state_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InstanceExists
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record

OTHER = "22222222-3c6e-5d59-9d0b-3a1c9d7f1e2a"
UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
OVERLAY = Difference("overlay", "vda is /x/root.s1", "virsh blockcommit", ("/x/root.s1",))
MISSING = Difference("missing", "/x/root.qcow2 is not there", None, ("/x/root.qcow2",))
ATTACHED = Difference("extra", "vdz is /x/data", "virsh detach-disk", ("/x/data",))


class Box:
    """One instance that is off, or ``active``, with ``found`` at its disks; what is done to it is in ``done``."""

    def __init__(self, tmp_path, monkeypatch):
        self.active, self.found, self.done = False, [OVERLAY], []
        store = Store(str(tmp_path))
        record = Record(
            uuid=UUID, name="web-1", project_id="default", role="OWN", generation=[1, 1], token="t", phase="active",
            spec={"flavor": {}}, resources={}, vm_state="stopped", power_state="shutdown",
        )  # fmt: skip
        self.record = plant(store, record)
        connection = SimpleNamespace(getHostname=lambda: "kvm1", getAllDomainStats=lambda *_all: [])
        host = SimpleNamespace(
            store=store,
            connection=connection,
            run_dir="",
            pool_of=lambda record: "/x",
            identify=lambda: "h",
            require_prepared=lambda: None,
        )
        fakes = {
            "disk_chain.differences": lambda *_all: self.found,
            "domain.is_active": lambda *_all: self.active,
            "domain.is_saved": lambda *_all: False,
            "domain.state": lambda *_all: "paused" if self.active else "shutdown",
            "domain.find": lambda *_all: object(),
            "domain.start": lambda *_all: self.done.append("start"),
            "packet_filter.define": lambda *_all: False,
            "domain.stop": lambda *_all: self.done.append("stop"),
            "delete.domain_xml.remove_guest": lambda *_all: self.done.append("remove"),
            "disk.remove_all": lambda *_all: self.done.append("disks"),
            "delete.owner.is_another": lambda *_all: False,
            "paths.remove_console_logs": lambda *_all: False,
            "gate.permit": lambda *_all: None,
            "gate.revoke": lambda *_all: None,
            "gate.is_permitted": lambda *_all: True,
        }
        for name, fake in fakes.items():
            *modules, function = name.split(".")
            monkeypatch.setattr(functools.reduce(getattr, modules, instances), function, fake)
        self.instance = instances.Instance(host, UUID)
        self.store = store


@pytest.fixture
def box(tmp_path, monkeypatch):
    return Box(tmp_path, monkeypatch)


@pytest.mark.parametrize("call", ["started", "would_start"])
def test_a_guest_with_a_snapshots_layer_is_not_started_and_nothing_is_written(box, call):
    with pytest.raises(DiskChainChanged, match="web-1.*kvm1.*/x/root.s1.*virsh blockcommit"):
        getattr(box.instance, call)()
    assert (box.done, box.store.read(UUID)) == ([], box.record)


@pytest.mark.follows("detach_attached")
def test_a_start_that_libvirt_refuses_names_the_disk_that_somebody_added_and_what_detaches_it(box, monkeypatch):
    """An ISO that was removed since, or that QEMU may not read: libvirt's words alone were a dead end."""
    box.found = [ATTACHED]

    def start(*_all):
        if ATTACHED in box.found:
            raise BuildFailed("starting the guest: Could not open '/x/data': Permission denied")
        box.done.append("start")

    monkeypatch.setattr(instances.domain, "start", start)
    monkeypatch.setattr(instances.domain, "is_saved_to_file", lambda *_all: False)
    with pytest.raises(BuildFailed, match="Permission denied") as caught:
        box.instance.started("t", None)
    assert "/x/data was added to the guest" in caught.value.hint and "virsh detach-disk" in caught.value.hint
    box.found = []
    box.instance.started("t", None)
    assert box.done == ["start"]


def test_a_disk_that_was_attached_holds_no_start_up(box):
    box.found = [ATTACHED]
    assert box.instance.started() and box.done == ["start"]


def test_a_guest_that_is_there_goes_on_with_its_snapshot(box):
    """A create that finds it paused lets it go on: it has its disks open already."""
    box.active = True
    assert box.instance.started() and box.done == ["start"]


def test_a_guest_with_a_snapshots_layer_can_be_stopped(box):
    box.active = True
    assert box.instance.stopped(1) and box.done == ["stop"]


@pytest.mark.follows("delete_changed_disks")
@pytest.mark.parametrize("found", [OVERLAY, ATTACHED], ids=["overlay", "attached"])
def test_a_delete_is_refused_unless_it_is_told_that_the_layer_may_go(box, found):
    box.found = [found]
    for refused in (box.instance.absent, box.instance.would_remove):
        with pytest.raises(DiskChainChanged, match="berth_delete_changed_disks=true"):
            refused()
    assert (box.done, box.store.read(UUID)) == ([], box.record)
    assert box.instance.would_remove(changed_disks=True)
    assert box.instance.absent(changed_disks=True)
    assert box.done == ["remove", "disks"] and box.store.read(UUID) is None


def test_a_delete_while_the_pool_is_not_mounted_is_refused_unless_it_is_told_that_there_are_no_disks(box, tmp_path):
    """The record alone would go, and the disks would be there again with the mount."""
    box.found, box.instance.host.pool_of = [MISSING], lambda record: str(tmp_path / "pool")
    for refused in (box.instance.absent, box.instance.would_remove):
        with pytest.raises(
            DiskChainChanged, match="On kvm1, mount.*berth_delete_changed_disks=true deletes the instance as it is$"
        ):
            refused()
    assert (box.done, box.store.read(UUID)) == ([], box.record)
    (tmp_path / "pool" / "instances").mkdir(parents=True)
    assert box.instance.would_remove(), "the pool is there, and somebody removed the disks"
    (tmp_path / "pool" / "instances").rmdir()
    assert box.instance.absent(changed_disks=True) and box.store.read(UUID) is None


def test_a_delete_that_was_begun_is_ended(box, tmp_path):
    (tmp_path / "pool" / "instances").mkdir(parents=True)
    box.instance.host.pool_of = lambda record: str(tmp_path / "pool")
    box.store.compare_and_swap(box.record, box.record.next(phase="deleting"))
    assert box.instance.absent() and box.done == ["remove", "disks"]


def other_domain(prepared, case, runs, file=None):
    """Somebody made a second domain of the guest's disks, by virsh edit or virt-clone, or one whose disk stands on them."""
    text, libvirt = case.domain.xml, prepared.connection
    for part, new in (("uuid", OTHER), ("name", "copy")):
        text = text.replace("<%s>%s<" % (part, case.uuid), "<%s>%s<" % (part, new))
    if file:
        text = text.replace(str(case.root), str(file))
    made = libvirt.defineXMLFlags(text)
    made.now = RUNNING if runs else SHUTOFF
    return made


@pytest.mark.follows("undefine_users_of_disks")
def test_a_guest_is_not_started_beside_another_that_runs_from_its_disks(prepared, wanted):
    web = Case(prepared, wanted())
    web.make()
    web.instance().stopped(0)
    other = other_domain(prepared, web, runs=True)
    for refused in (web.instance().started, web.instance().would_start):
        with pytest.raises(
            DisksUsed, match=r"other domains on kvm1 have disks of web1 .*: copy \(%s, running\)" % OTHER
        ) as caught:
            refused()
        assert caught.value.hint == state_hints.undefine_users_of_disks("kvm1")
    assert web.state() == ("stopped", None, "shutdown", False)
    other.now = SHUTOFF
    del prepared.connection.domains[OTHER]
    assert web.instance().started() and web.state() == ("active", None, "running", True)


@pytest.mark.follows("wait_for_libguestfs")
def test_a_tool_of_libguestfs_that_has_its_disks_is_told_as_one_that_ends_by_itself(prepared, wanted):
    web = Case(prepared, wanted())
    web.make()
    web.instance().stopped(0)
    other = other_domain(prepared, web, runs=True)
    other.xml = (
        other.xml.replace("<name>copy<", "<name>guestfs-0xyz<")
        .replace("<title>", "<description>")
        .replace("</title>", "</description>")
    )
    with pytest.raises(DisksUsed, match="guestfs-0xyz") as caught:
        web.instance().started()
    assert caught.value.hint == state_hints.wait_for_libguestfs("kvm1")
    del prepared.connection.domains[OTHER]
    assert web.instance().started()


def test_another_domain_of_its_disks_that_is_off_does_not_keep_a_guest_from_its_start(prepared, wanted):
    web = Case(prepared, wanted())
    web.make()
    web.instance().stopped(0)
    other_domain(prepared, web, runs=False)
    assert web.instance().started() and web.state() == ("active", None, "running", True)


@pytest.mark.follows("rename_domain")
@pytest.mark.parametrize("way", ["renamed", "undefined"])
def test_a_guest_whose_name_another_domain_has_is_not_defined_and_is_once_that_one_is_renamed_or_gone(
    prepared, wanted, way
):
    """virsh edit of the uuid makes a second domain; whoever undefines the first to keep one name leaves that one with it."""
    web = Case(prepared, wanted())
    web.make()
    web.instance().stopped(0)
    text, libvirt = web.domain.xml, prepared.connection
    del libvirt.domains[web.uuid]
    libvirt.defineXMLFlags(text.replace("<uuid>%s<" % web.uuid, "<uuid>%s<" % OTHER)).now = SHUTOFF
    with pytest.raises(InstanceExists, match="%s cannot be defined on kvm1: .*%s" % (web.uuid, OTHER)) as caught:
        web.instance().started()
    assert caught.value.hint == state_hints.rename_domain("kvm1", OTHER) and web.domain is None
    if way == "renamed":
        libvirt.domains[OTHER].xml = libvirt.domains[OTHER].xml.replace("<name>%s<" % web.uuid, "<name>another<")
    else:
        del libvirt.domains[OTHER]
    assert web.instance().started() and web.state() == ("active", None, "running", True)


@pytest.mark.parametrize("where", ["its disk", "a layer over it"])
@pytest.mark.parametrize("runs", [True, False])
def test_no_step_of_a_move_leaves_or_removes_disks_that_another_domain_has(prepared, wanted, tmp_path, runs, where):
    """Of a confirmed move that domain would lose its disk, and of a copy made while it writes the instance would be torn."""
    web = Case(prepared, wanted())
    web.make()
    effects = moving_host.MovingHost(prepared).effects
    effects.check_disks(web.record)
    layer = tmp_path / "clone.qcow2"
    if where == "a layer over it":
        run(["qemu-img", "create", "-q", "-f", "qcow2", "-u", "-F", "qcow2", "-b", str(web.root), str(layer), "1M"])
    other_domain(prepared, web, runs, layer if where == "a layer over it" else None)
    with pytest.raises(DisksUsed, match="have disks of web1 .*%s" % OTHER) as caught:
        effects.check_disks(web.record)
    assert caught.value.hint == state_hints.undefine_users_of_disks("kvm1")
    del prepared.connection.domains[OTHER]
    effects.check_disks(web.record)


@pytest.mark.follows("delete_used_disks")
@pytest.mark.parametrize("way", ["undefined", "told"])
@pytest.mark.parametrize("runs", [True, False])
def test_a_disk_that_another_domain_has_is_not_deleted_under_it(prepared, wanted, runs, way):
    """Somebody gave the guest another uuid by virsh edit, which makes a second domain of the same disks."""
    web = Case(prepared, wanted())
    web.make()
    web.instance().stopped(0)
    other_domain(prepared, web, runs)
    before = web.record
    for refused in (web.instance().absent, web.instance().would_remove):
        with pytest.raises(DisksUsed, match="other domains on kvm1 have disks of web1 .*%s" % OTHER) as caught:
            refused()
        assert caught.value.hint == state_hints.delete_used_disks()
    assert web.record == before and web.root.exists() and web.domain
    if way == "undefined":
        del prepared.connection.domains[OTHER]
    assert web.instance().absent(changed_disks=way == "told") and not web.root.exists() and web.record is None


@NEEDS_QEMU_IMG
@pytest.mark.parametrize("goes", [True, False])
def test_a_volume_that_another_domain_has_keeps_its_instance_from_a_delete_only_if_it_goes_too(house, goes):
    web = house.guest()
    web.make(named(goes=goes, new=True))
    web.instance().stopped(0)
    other_domain(house.host, web, True).xml = web.domain.xml.replace(web.uuid, OTHER)
    if goes:
        with pytest.raises(DisksUsed, match="have disks of web1 .*%s" % OTHER):
            web.delete()
    else:
        assert web.delete() and house.file().exists()


@NEEDS_QEMU_IMG
@pytest.mark.parametrize("runs", [True, False])
def test_a_move_does_not_remove_the_disk_of_another_guest_that_lies_beside_a_volume(house, runs):
    """virsh vol-clone and virt-clone make a copy in the directory of the volume, which goes when the volume has moved."""
    web = house.guest()
    web.make(named(new=True))
    effects = moving_host.MovingHost(house.host).effects
    effects.check_disks(web.record)
    copy = house.file().parent / "disk-clone.qcow2"
    copy.write_bytes(house.file().read_bytes())
    other_domain(house.host, web, runs).xml = web.domain.xml.replace(web.uuid, OTHER).replace(
        str(house.file()), str(copy)
    )
    with pytest.raises(DisksUsed, match="have disks of web1 .*%s" % OTHER):
        effects.check_disks(web.record)


@pytest.mark.follows("undefine_users_of_disks")
def test_what_another_guest_wrote_is_kept_when_its_disk_is_moved_away_as_the_hint_says(prepared, wanted, tmp_path):
    """A full copy that virt-clone made beside the disk goes with the directory, so that undefining its guest is not enough."""
    web = Case(prepared, wanted())
    web.make()
    copy, kept = web.root.parent / "root-clone.qcow2", tmp_path / "root-clone.qcow2"
    copy.write_bytes(b"mine")
    other_domain(prepared, web, False, copy)
    effects = moving_host.MovingHost(prepared).effects
    with pytest.raises(DisksUsed) as caught:
        effects.check_disks(web.record)
    assert "move their own disks from beside those of the instance to another directory" in caught.value.hint
    copy.rename(kept)
    del prepared.connection.domains[OTHER]
    web.instance().stopped(0)
    assert web.instance().absent() and kept.read_bytes() == b"mine"


@NEEDS_QEMU_IMG
def test_a_guest_starts_beside_another_that_runs_from_a_copy_of_its_volume(house):
    web = house.guest()
    web.make(named(new=True))
    web.instance().stopped(0)
    copy = house.file().parent / "disk-clone.qcow2"
    copy.write_bytes(house.file().read_bytes())
    text = web.domain.xml.replace(web.uuid, OTHER).replace(str(house.file()), str(copy))
    other_domain(house.host, web, True).xml = text
    assert web.instance().started()
