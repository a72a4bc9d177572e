# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An adopted instance moves: its guest finds all that it had, and its disks lie where those of created ones do. Real records,
files and qemu-img, a fake libvirt."""

from __future__ import annotations

import os
import subprocess
from xml.etree import ElementTree

import memory_controller
import memory_names
import pytest
import volume_move_case
from adopt_case import OWN_UUID, Found
from instance_case import Killed
from memory_names import D, S

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import layers
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DisksWithoutRecord
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import adoptable, nvram
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.adoptable import GuestNotAdoptable
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import disks, live, live_checks, moving_host
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import claim
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import InstanceInvalidState

SMALL = 3 << 20  # bytes of its disk
MINE = b"what the guest wrote"


class Effects(moving_host.Effects):
    """Disks are copied by qemu-img within this machine; what needs a network, a QEMU or all of a host is left out."""

    there = None  # the pool of the destination

    def nothing(self, *_arguments):
        return []

    check_networks = check_asked = stop_transfer = nothing

    def has_left(self, _uuid):
        return False

    halted = has_left

    def allocate(self, spec, limits):
        return {
            "vcpus": spec["flavor"]["vcpus"],
            "memory_mb": spec["flavor"]["memory_mb"],
            "disk_gb": 1,
            "resources": {},
        }

    def presend(self, record, targets, key, options):
        return None

    def receive(self, record, manifest, key):
        wanted = disks.grown(disks.expected(self.pool_path(record), record, manifest), record)
        for each in wanted:
            part = disks.paths.incoming_file(each["path"], record.migration["attempt"])
            disks.paths.remove(part)
            moving_host.transfer.make_empty(part, each["format"], each["size"])
            each["part"] = part
        return wanted

    def send(self, record, targets, key, options):
        parts = {target["name"]: target for target in targets}
        for each in disks.manifest(self.pool_path(record), record, with_path=True):
            part = parts[each["name"]]["part"]
            subprocess.run(
                ["qemu-img", "convert", "-n", "-f", each["format"], "-O", each["format"], each["path"], part],
                check=True,
            )
        return {"bytes": 1}


@pytest.fixture
def fleet(make_host, monkeypatch, tmp_path):
    """The adopted instance web1 runs on S; D has a pool of its own."""
    for module in (memory_controller, memory_names):
        monkeypatch.setattr(module, "UUID", OWN_UUID)
    monkeypatch.setattr(memory_controller, "NAME", "web1")
    allowed = set()
    monkeypatch.setattr(moving_host.gate, "permit", lambda uuid, *_: allowed.add(uuid))
    monkeypatch.setattr(moving_host.gate, "revoke", lambda uuid, *_: allowed.discard(uuid))
    monkeypatch.setattr(moving_host.gate, "is_permitted", lambda uuid, *_: uuid in allowed)
    for part in (moving_host.health, moving_host.network, moving_host.arrival):
        for check in ("check_answers", "check"):
            if hasattr(part, check):
                monkeypatch.setattr(part, check, lambda *_: None)
    monkeypatch.setattr(moving_host.block_jobs, "check_no_others_jobs", lambda *_: None)
    monkeypatch.setattr(moving_host.precopy, "tidy", lambda *_: None)
    monkeypatch.setattr(moving_host.transfer, "close", lambda *_: None)
    monkeypatch.setattr(moving_host.paths, "remove_console_logs", lambda *_: None)
    monkeypatch.setattr(moving_host.firmware, "check_here", lambda *_: None)
    monkeypatch.setattr(claim.Ledger, "__init__", lambda *_: None)
    made = {name: make_host("kvm%s" % name, volume_move_case.UUIDS[name]) for name in (S, D)}
    for host in made.values():
        host.domain_type = "kvm"
        (host.pool / "instances").mkdir()
    guest = Found(made[S], tmp_path)
    write(guest.disk, SMALL, MINE)
    hosts = {name: moving_host.MovingHost(host) for name, host in made.items()}
    for name, host in hosts.items():
        host.identity["name"], host.effects = name, Effects(host)
    found = volume_move_case.Fleet(hosts, None)
    found.guest, found.volume, found.roles, found.check = guest, lambda _name: None, None, lambda: None
    return found


def write(path, size, begin):
    with open(path, "wb") as file:
        file.write(begin)
        file.truncate(size)


def begins(path):
    with open(path, "rb") as file:
        return file.read(len(MINE))


def adopted(fleet, **flavor):
    """Adopt it. What is wanted of a move: its request as it is now, with changes to its flavor."""
    fleet.guest.adopt()
    return wants(fleet, **flavor)


def wants(fleet, **flavor):
    host = fleet.host(S)
    spec = adoptable.renewed(host.connection, fleet.held(S), host.effects.pool_path).spec
    fleet.wanted = {**spec, "flavor": {**spec["flavor"], **flavor}}
    fleet.kind = "resize" if flavor else "migration"


def domain(fleet, name):
    return fleet.host(name).compute.connection.domains.get(OWN_UUID)


def disk_there(fleet):
    return fleet.host(D).compute.pool / "instances" / OWN_UUID / "sda.raw"


def seen(xml):
    """What a guest sees of its definition."""
    root = ElementTree.fromstring(xml)
    for part in ("metadata", "name", "title", "description"):
        for element in root.findall(part):
            root.remove(element)
    for source in root.iterfind("devices/disk/source"):
        source.attrib.pop("file")
    return ElementTree.canonicalize(ElementTree.tostring(root, encoding="unicode"), strip_text=True)


def test_it_moves_and_its_guest_finds_all_that_it_had(fleet):
    adopted(fleet)
    before = domain(fleet, S).xml
    assert fleet.went("resize") and fleet.went("confirm")
    assert seen(domain(fleet, D).xml) == seen(before) and domain(fleet, D).isActive()
    assert begins(disk_there(fleet)) == MINE and domain(fleet, S) is None and fleet.held(S) is None
    assert str(disk_there(fleet)) in domain(fleet, D).xml and str(fleet.guest.disk) not in domain(fleet, D).xml


def test_its_old_disk_stays_until_the_confirm_and_goes_then(fleet):
    adopted(fleet)
    fleet.went("resize")
    assert begins(fleet.guest.disk) == MINE
    fleet.went("confirm")
    assert not fleet.guest.disk.exists()


def test_a_revert_brings_it_back_to_where_it_was_found(fleet):
    adopted(fleet)
    before = domain(fleet, S).xml
    fleet.went("resize")
    write(disk_there(fleet), SMALL, b"lost by the revert")
    fleet.went("revert")
    assert begins(fleet.guest.disk) == MINE and seen(domain(fleet, S).xml) == seen(before)
    assert domain(fleet, S).name() == "Web_1" and domain(fleet, S).isActive()
    assert (domain(fleet, D), disk_there(fleet).parent.exists(), fleet.held(D)) == (None, False, None)
    assert fleet.guest.leave() is True and str(fleet.guest.disk) in domain(fleet, S).xml
    assert os.listdir(fleet.host(S).compute.pool / "instances") == []


def test_what_somebody_changed_since_it_was_adopted_moves_with_it(fleet):
    fleet.guest.adopt()
    more = '<interface type="bridge"><mac address="52:54:00:aa:bb:dd"/><source bridge="br1"/></interface></devices>'
    fleet.guest.domain.xml = fleet.guest.domain.xml.replace("</devices>", more)
    wants(fleet)
    fleet.went("resize")
    assert "52:54:00:aa:bb:dd" in domain(fleet, D).xml
    assert [nic["source"] for nic in fleet.held(D).spec["networks"]] == ["br0", "br1"]


def test_a_guest_that_got_what_no_record_keeps_stays(fleet):
    adopted(fleet)
    shared = '<filesystem type="mount"><source dir="/srv"/><target dir="srv"/></filesystem></devices>'
    fleet.guest.domain.xml = fleet.guest.domain.xml.replace("</devices>", shared)
    failed = fleet.run("resize")
    assert GuestNotAdoptable.__name__ in failed.error and "shares a directory" in failed.error
    assert fleet.held(S).op is None and fleet.held(D) is None and domain(fleet, S).isActive()


def test_a_change_between_plan_and_move_is_planned_again(fleet):
    adopted(fleet)
    fleet.guest.domain.xml = fleet.guest.domain.xml.replace("e1000", "virtio")
    assert "were changed after this move was planned" in fleet.run("resize").error
    assert fleet.held(S).op is None


def test_a_definition_that_names_what_only_its_host_has_stays(fleet):
    adopted(fleet)
    fleet.guest.domain.xml = fleet.guest.domain.xml.replace(
        '<serial type="pty">', '<serial type="file"><source path="/x"/>'
    )
    wants(fleet)
    error = fleet.run("resize").error
    assert "it has a serial of type file" in error and "names /x, a file of its host" in error
    assert fleet.held(S).op is None and fleet.held(D) is None


def test_a_resize_to_another_host_gives_cpus_memory_and_a_larger_first_disk(fleet):
    adopted(fleet, name="big", vcpus=4, memory_mb=4096, root_gb=2)
    fleet.went("resize")
    root = ElementTree.fromstring(domain(fleet, D).xml)
    assert [root.findtext(part) for part in ("vcpu", "memory", "currentMemory")] == ["4", "4194304", "4194304"]
    assert disk_there(fleet).stat().st_size == 2 << 30 and begins(disk_there(fleet)) == MINE
    fleet.went("revert")
    root = ElementTree.fromstring(domain(fleet, S).xml)
    assert [root.findtext(part) for part in ("vcpu", "memory")] == ["2", "2097152"]
    assert fleet.guest.disk.stat().st_size == SMALL


@pytest.mark.parametrize("end, size", [("revert", SMALL), ("confirm", 2 << 30)])
def test_a_resize_on_its_host_keeps_the_old_disk_beside_it_until_the_end(fleet, end, size):
    adopted(fleet, name="big", vcpus=4, root_gb=2)
    fleet.kind = "here"
    fleet.went("resize")
    assert fleet.guest.disk.stat().st_size == 2 << 30
    assert [name for name in os.listdir(fleet.guest.disk.parent) if ".pre-" in name]
    assert ElementTree.fromstring(domain(fleet, S).xml).findtext("vcpu") == "4"
    fleet.went(end)
    assert os.listdir(fleet.guest.disk.parent) == [fleet.guest.disk.name] and begins(fleet.guest.disk) == MINE
    assert fleet.guest.disk.stat().st_size == size


def test_a_plain_move_changes_the_size_of_no_disk(fleet):
    """Its flavor has whole GiB, a found disk any size."""
    adopted(fleet)
    fleet.went("resize")
    assert disk_there(fleet).stat().st_size == SMALL


LEAVE_STEPS = [
    "leave files",
    "leave files record",
    "leave define",
    "leave files inside",
    "leave mark",
    "leave permit",
    "leave record",
]


def moved(fleet):
    """What is on D of the instance, whose move there is confirmed."""
    adopted(fleet)
    fleet.went("resize")
    fleet.went("confirm")
    there = Found.__new__(Found)
    there.__dict__.update(host=fleet.host(D).compute, uuid=OWN_UUID, steps=[])
    return there


@pytest.mark.parametrize("killed_at", [None, *LEAVE_STEPS])
def test_what_has_moved_is_left_with_its_disk_outside_of_berths_directories_and_starts_without_berth(fleet, killed_at):
    there, inside = moved(fleet), disk_there(fleet)
    there.instance().stopped(1)
    if killed_at:
        with pytest.raises(Killed):
            there.leave(killed_at=killed_at)
    assert [there.leave(), there.leave()] == [True, False]
    out = there.host.pool / "left" / OWN_UUID / inside.name
    assert begins(out) == MINE and out.stat().st_nlink == 1 and not inside.parent.exists() and there.record is None
    xml = there.domain.xml
    assert ElementTree.fromstring(xml).find("devices/disk/source").get("file") == str(out)
    assert "berth" not in xml and "/instances/" not in xml and "-console.log" not in xml
    there.domain.createWithFlags()
    assert there.domain.isActive()


def test_what_has_moved_is_not_left_while_it_runs_since_qemu_would_not_know_where_its_disk_is(fleet):
    there = moved(fleet)
    before = there.record
    with pytest.raises(InstanceInvalidState, match="leave after a move") as refused:
        there.leave()
    assert "berth.kvm.stop --limit web1" in refused.value.hint
    assert there.record == before and begins(disk_there(fleet)) == MINE and not (there.host.pool / "left").exists()


def test_a_leave_replaces_no_file_that_is_there(fleet):
    there = moved(fleet)
    there.instance().stopped(1)
    other = there.host.pool / "left" / OWN_UUID / disk_there(fleet).name
    other.parent.mkdir(parents=True)
    other.write_bytes(b"somebody's")
    with pytest.raises(DisksWithoutRecord, match="not that of instance web1"):
        there.leave()
    assert other.read_bytes() == b"somebody's" and begins(disk_there(fleet)) == MINE and there.record


def test_what_has_moved_is_deleted_with_its_directory(fleet):
    there = moved(fleet)
    assert there.instance().absent() is True and not disk_there(fleet).parent.exists()


def test_hosts_that_share_the_pool_do_not_move_what_lies_outside_of_it(fleet, monkeypatch):
    monkeypatch.setattr(fleet.host(D).compute.connection, "pool_path", str(fleet.host(S).compute.pool))
    adopted(fleet)
    assert "is not in it" in fleet.run("resize").error
    assert begins(fleet.guest.disk) == MINE and domain(fleet, S).isActive()


def test_a_running_guest_is_brought_to_the_files_of_its_destination_and_keeps_all_else(fleet):
    variables = fleet.guest.disk.with_name("web1_VARS.fd")
    write(variables, SMALL, b"variables")
    fleet.guest.domain.xml = fleet.guest.domain.xml.replace("hvm</type>", "hvm</type><nvram>%s</nvram>" % variables)
    adopted(fleet)
    record, pool = fleet.held(S), fleet.host(S).effects.pool_path(fleet.held(S))
    text = fleet.guest.domain.xml
    assert live_checks.disk_problems(text, record, pool, False) == []
    there = live._as_there(text, record, pool, {"shared": False, "pool_path": "/there"})
    own = "/there/instances/%s/" % OWN_UUID
    assert there.count(own) == 2 and '<source file="%ssda.raw"' % own in there
    assert "<nvram>%snvram.fd</nvram>" % own in there and seen(there).replace(own + "nvram.fd", str(variables)) == seen(
        text
    )


def test_a_medium_that_only_the_running_guest_has_is_told_with_how_to_eject_it(fleet):
    """After an installation from a CD, the definition of the next start has none any more."""
    adopted(fleet)
    text = fleet.guest.domain.xml.replace('<target dev="sdb"', '<source file="/srv/x.iso"/><target dev="sdb"')
    told = live_checks.disk_problems(text, fleet.held(S), fleet.host(S).effects.pool_path(fleet.held(S)), False)
    assert [each.partition(". ")[2] for each in told] == [
        "Eject it with virsh change-media %s sdb --eject --live" % OWN_UUID
    ]


def test_the_uefi_variables_of_a_guest_go_along(fleet):
    variables = fleet.guest.disk.with_name("web1_VARS.fd")
    write(variables, SMALL, b"variables of the guest")
    fleet.guest.domain.xml = fleet.guest.domain.xml.replace(
        "hvm</type>", "hvm</type><nvram template='/t'>%s</nvram>" % variables
    )
    adopted(fleet)
    fleet.went("resize")
    there = disk_there(fleet).with_name("nvram.fd")
    assert begins(there) == b"variables of the guest"[: len(MINE)] and str(there) in domain(fleet, D).xml
    fleet.went("confirm")
    assert os.listdir(fleet.guest.disk.parent) == []


@pytest.mark.parametrize("runs", [True, False], ids=["running", "off"])
def test_uefi_variables_that_its_definition_does_not_name_go_along(fleet, monkeypatch, runs):
    guest, name = fleet.guest.domain, "%s_VARS.fd"
    monkeypatch.setattr(nvram, "USUAL", str(fleet.guest.disk.with_name(name)))
    variables = fleet.guest.disk.with_name(name % "Web_1")
    write(variables, SMALL, b"variables of the guest")
    guest.xml = guest.xml.replace("<os>", "<os firmware='efi'>")
    if runs:
        guest.live = guest.xml.replace("hvm</type>", "hvm</type><nvram template='/t'>%s</nvram>" % variables)
    else:
        guest.destroy()
    adopted(fleet)
    fleet.went("resize")
    there = disk_there(fleet).with_name("nvram.fd")
    assert (
        begins(there) == b"variables of the guest"[: len(MINE)] and "<nvram>%s</nvram>" % there in domain(fleet, D).xml
    )
    fleet.went("revert")
    assert domain(fleet, S).name() == "Web_1" and begins(variables) == b"variables of the guest"[: len(MINE)]


@pytest.mark.parametrize("kind, end", [("migration", "confirm"), ("migration", "revert"), ("here", "revert")])
def test_a_disk_on_a_base_image_arrives_whole_and_its_base_stays(fleet, kind, end):
    base, clone = fleet.guest.disk, fleet.guest.disk.with_name("clone.qcow2")
    create = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(base), str(clone)]
    subprocess.run(create, check=True)
    fleet.guest.define(
        fleet.guest.domain.xml.replace(
            'type="raw"/><source file="%s"' % base, 'type="qcow2"/><source file="%s"' % clone
        )
    )
    fleet.guest.domain.createWithFlags()
    adopted(fleet, **({"name": "big", "root_gb": 2} if kind == "here" else {}))
    fleet.kind = kind
    fleet.went("resize")
    there = disk_there(fleet).with_name("sda.qcow2") if kind == "migration" else clone
    if kind == "migration":
        assert layers.read_header(str(there)).backing is None
    fleet.went(end)
    back = clone if end == "revert" else there
    read = ["qemu-img", "convert", "-f", "qcow2", "-O", "raw", str(back), str(base.with_name("content"))]
    subprocess.run(read, check=True)
    assert begins(base) == MINE == begins(base.with_name("content"))
    assert layers.read_header(str(clone)).backing == (str(base) if kind == "here" or end == "revert" else None)
