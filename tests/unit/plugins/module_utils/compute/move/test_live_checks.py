# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each thing that speaks against a live migration, and all of them at once (R30)."""

from __future__ import annotations

import os
import types

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.connection import LibvirtUnavailable
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import HostNotPrepared
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import as_qemu, certificates
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import live_checks
from ansible_collections.berth.kvm.plugins.module_utils.model import host_hints, reply_shapes
from ansible_collections.berth.kvm.plugins.module_utils.model.shape import Fault
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid

POOL = "/pool"
UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
GUEST = {
    "cpu": "<cpu mode='custom'><model>Nehalem</model></cpu>", "host_cpu": None, "arch": "x86_64",
    "machine": "pc-q35-7.2", "virt_type": "kvm", "qemu": 7002000, "bytes": 1 << 20,
}  # fmt: skip
SEEN = {"problems": [], "address": "192.0.2.12", "certificates": [], "shared": False, "pool_path": POOL}
DISK = "<disk><source file='%s/instances/%s/root.qcow2'/></disk>" % (POOL, UUID)


QEMU = (64055, 64055)
NAME = as_qemu.name(QEMU)
CAPABILITIES = """<capabilities><host><secmodel><model>dac</model>
<baselabel type='kvm'>+64055:+64055</baselabel></secmodel></host></capabilities>"""
KEY = "/etc/pki/qemu/server-key.pem"


class Error(Exception):
    def __init__(self, text, code):
        super().__init__(text)
        self.code = code

    def get_error_code(self):
        return self.code


LIBRARY = types.SimpleNamespace(
    libvirtError=Error, VIR_CONNECT_COMPARE_CPU_FAIL_INCOMPATIBLE=1, VIR_CPU_COMPARE_INCOMPATIBLE=0,
    VIR_ERR_NO_SUPPORT=3, VIR_ERR_CONFIG_UNSUPPORTED=67, VIR_DOMAIN_XML_MIGRATABLE=8,
)  # fmt: skip


class Destination:
    """libvirt of a host that can take the guest, but for what a test says."""

    version = 7002000
    compared = machine = None

    def compareHypervisorCPU(self, *what):
        return self._said(self.compared, 1)

    def compareCPU(self, *what):
        return self._said(self.compared, 1)

    def getDomainCapabilities(self, *what):
        return self._said(self.machine, "<domainCapabilities/>")

    def getVersion(self):
        return self.version

    def getCapabilities(self):
        return CAPABILITIES

    @staticmethod
    def _said(what, good):
        if isinstance(what, Error):
            raise what
        return good if what is None else what


class Found:
    def __init__(self, devices=DISK, snapshots=()):
        self.devices, self.snapshots = devices, snapshots

    def XMLDesc(self, flags):
        return "<domain><devices>%s</devices></domain>" % self.devices

    def snapshotListNames(self, flags):
        return self.snapshots

    def connect(self):
        return types.SimpleNamespace(getHostname=lambda: "kvm1", getCapabilities=lambda: CAPABILITIES)


@pytest.fixture(autouse=True)
def host(monkeypatch):
    monkeypatch.setattr(connection, "libvirt", LIBRARY)
    monkeypatch.setattr(certificates, "faults", lambda: [])
    monkeypatch.setattr(as_qemu, "certificates", lambda: [KEY])
    monkeypatch.setattr(as_qemu, "closed", lambda who, files=(), directories=(): [])
    monkeypatch.setattr(live_checks, "connect", lambda timeout, uri: types.SimpleNamespace(close=lambda: None))


def instance(resources=None, **spec):
    flavor = {"root_gb": 1, "ephemeral_gb": 0, "swap": 0}
    return types.SimpleNamespace(uuid=UUID, name="web1", resources=resources or {}, spec={"flavor": flavor, **spec})


DESTINATIONS = {
    "good": ({}, {}, None),
    "CPU": ({"compared": Error("missing features: avx2", 8)}, {}, "avx2"),
    "CPU without a word": ({"compared": 0}, {}, "CPU lacks"),
    "the host's own CPU": ({"compared": 0}, {"cpu": None, "host_cpu": "<cpu/>"}, "CPU lacks"),
    "no comparison for this kind of guest": ({"compared": Error("not supported", 3)}, {}, None),
    "machine type": ({"machine": Error("the machine 'pc-q35-7.2' is not supported", 8)}, {}, "type pc-q35-7.2"),
    "older QEMU": ({"version": 6000000}, {}, "6.0.0, not 7.2.0"),
    "newer QEMU": ({"version": 9001002}, {}, None),
    "disk space": ({}, {"bytes": 1 << 60}, "MiB free"),
}


@pytest.mark.parametrize("case", DESTINATIONS)
def test_what_the_destination_cannot_take(tmp_path, case):
    host, guest, expected = DESTINATIONS[case]
    connection = Destination()
    connection.__dict__.update(host)
    problems = live_checks.look(connection, {**GUEST, **guest}, [], str(tmp_path), False, "192.0.2.12")["problems"]
    assert [expected in problem for problem in problems] == ([True] if expected else []), problems


def test_a_missing_bridge_is_one_problem_among_others(tmp_path):
    connection = Destination()
    connection.version = 6000000
    nics = [{"type": "bridge", "source": "no-such-bridge"}]
    problems = live_checks.look(connection, GUEST, nics, str(tmp_path), False, "192.0.2.12")["problems"]
    assert len(problems) == 2 and "no bridge no-such-bridge" in problems[1]


@pytest.fixture
def shut(monkeypatch):
    """What keeps QEMU's user out."""
    found = []

    def closed(who, files=(), directories=()):
        assert who == QEMU
        return [path for path in (*files, *directories) if path in found]

    monkeypatch.setattr(as_qemu, "closed", closed)
    return found


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize("where", ["the source", "the destination"])
def test_a_key_that_qemus_user_cannot_read_is_found_before_anything_is_changed(tmp_path, shut, where, tls):
    """The daemon of libvirt, which is root, can: the migration would fail when QEMU opens it."""
    shut += [KEY] if where == "the destination" else []
    seen = live_checks.look(Destination(), GUEST, [], str(tmp_path), False, "192.0.2.12")
    shut[:] = [KEY] if where == "the source" else []
    problems = live_checks.judge(Found(), instance(), {**seen, "pool_path": POOL}, tls, POOL)
    assert len(problems) == tls, "only TLS needs it"
    for problem in problems:
        assert problem.startswith("no TLS on %s: QEMU, which runs as %s, cannot read %s. " % (where, NAME, KEY))
        assert host_hints.prepare_host(os.uname().nodename) in problem and "chmod" not in problem


@pytest.mark.parametrize("part", ["", "instances"], ids=["a new pool", "a pool with disks"])
def test_a_pool_that_qemus_user_may_not_enter_is_found_before_anything_is_changed(tmp_path, shut, part):
    (tmp_path / part).mkdir(exist_ok=True)
    shut.append(str(tmp_path / part))
    (problem,) = live_checks.look(Destination(), GUEST, [], str(tmp_path), False, "192.0.2.12")["problems"]
    assert "QEMU, which runs as %s, may not enter %s. " % (NAME, tmp_path / part) in problem


def test_what_nobody_can_try_is_a_problem_of_its_own(tmp_path, monkeypatch):
    def closed(*_asked, **_more):
        raise HostNotPrepared("setpriv is not installed")

    monkeypatch.setattr(as_qemu, "closed", closed)
    told = live_checks.look(Destination(), GUEST, [], str(tmp_path), False, "192.0.2.12")
    assert told["certificates"] == told["problems"] == ["setpriv is not installed"]


def test_shared_disks_need_no_room(tmp_path):
    big = {**GUEST, "bytes": 1 << 60}
    assert not live_checks.look(Destination(), big, [], str(tmp_path), True, "192.0.2.12")["problems"]


SOURCES = {
    "good": (Found(), {}, {}, None),
    "what the destination says": (Found(), {}, {"problems": ["no room"]}, "no room"),
    "PCI device of the record": (Found(), {"pci_devices": ["0000:01:00.0"]}, {}, "devices of the host"),
    "card of the host": (
        Found(DISK + "<interface type='hostdev'/>"),
        {"pci_devices": [{"request_id": "nic:0"}]},
        {},
        "devices of the host",
    ),
    "device put in by hand": (Found(DISK + "<hostdev/>"), {}, {}, "devices of the host"),
    "snapshots that libvirt has noted": (
        Found(snapshots=["one", "the 2nd"]),
        {},
        {},
        "virsh snapshot-delete %s one --metadata; virsh snapshot-delete %s 'the 2nd' --metadata" % (UUID, UUID),
    ),
    "a drive that is empty": (
        Found(DISK + "<disk device='cdrom'><source index='4'/><target dev='sda'/></disk><disk device='cdrom'/>"),
        {},
        {},
        None,
    ),
    "a disk on the network": (Found(DISK + "<disk><source protocol='rbd' name='a/b'/></disk>"), {}, {}, "no file"),
    "foreign disk": (Found(DISK + "<disk><source dev='/dev/sdb'/></disk>"), {}, {}, "/dev/sdb"),
    "two places of one storage": (Found(), {}, {"shared": True, "pool_path": "/other"}, "/other there"),
    "certificates there": (Found(), {}, {"certificates": ["ended"]}, "no TLS on the destination: ended"),
    "address": (Found(), {}, {"address": "a,b=c"}, "not valid"),
}


@pytest.mark.parametrize("case", SOURCES)
def test_what_the_source_says(case):
    found, resources, seen, expected = SOURCES[case]
    record = instance(resources)
    problems = live_checks.judge(found, record, {**SEEN, **seen}, True, POOL)
    assert [expected in problem for problem in problems] == ([True] if expected else []), problems


def claimed(*sizes):
    return {"numa_topology": {"cells": [{"id": at, "pagesize": size} for at, size in enumerate(sizes)]}}


CELLS = {
    "none": ({}, {}, None),
    "other cells of the same kind": (claimed(2048, 2048), claimed(2048, 2048), None),
    "a destination without cells": (claimed(None), {}, "1 NUMA cells, and the destination set 0 aside"),
    "pages of another size": (
        claimed(2048),
        claimed(1048576),
        "pages of 2048 KiB, and the destination set pages of 1048576",
    ),
}


@pytest.mark.parametrize("case", CELLS)
def test_a_guest_keeps_the_number_of_its_cells_and_the_size_of_its_pages(case):
    here, there, expected = CELLS[case]
    problems = live_checks.judge(Found(), instance(here), SEEN, True, POOL, there)
    assert [expected in problem for problem in problems] == ([True] if expected else []), problems


@pytest.mark.follows("take_all_disks")
def test_a_disk_that_the_running_guest_lacks_would_arrive_empty():
    """virsh detach-disk leaves the file, which libvirt does not copy: the end of the move would remove it. A cold one copies it."""
    record = instance(disks=[{"name": "logs", "size_gb": 1, "bus": "virtio"}])
    problems = live_checks.judge(Found(), record, SEEN, True, POOL)
    assert len(problems) == 1 and "data-logs.qcow2" in problems[0] and "cold_migrate" in problems[0]
    whole = DISK + DISK.replace("root", "data-logs")
    assert not live_checks.judge(Found(whole), record, SEEN, True, POOL)


VOLUME = "<disk><source file='%s/volumes/%s/disk.qcow2'/></disk>" % (POOL, volume_uuid("default", "db"))
LACKING = {
    "a volume": (DISK, False, "volumes/"),
    "a volume that may not be written to": (DISK + VOLUME.replace("<source", "<readonly/><source"), False, "volumes/"),
    "a root disk that may not be written to": (DISK.replace("<source", "<readonly/><source") + VOLUME, False, "root"),
    "nothing": (DISK + VOLUME, False, None),
    "a volume on one storage, which stays where it is": (DISK, True, None),
}


@pytest.mark.parametrize("case", LACKING)
def test_what_libvirt_would_not_copy_is_said_before_anything_is_started(case):
    devices, shared, expected = LACKING[case]
    record = instance(project_id="default", volumes=[{"name": "db", "size_gb": 1, "slot": 0}])
    problems = live_checks.judge(Found(devices), record, {**SEEN, "shared": shared}, True, POOL)
    assert [expected in problem for problem in problems] == ([True] if expected else []), problems


def test_certificates_do_not_matter_without_tls():
    record = instance()
    assert not live_checks.judge(Found(), record, {**SEEN, "certificates": ["ended"]}, False, POOL)


def test_a_libvirt_that_is_not_reached_is_a_problem(monkeypatch):
    def connect(timeout, uri):
        assert uri == "qemu+tls://[2001:db8::12]/system"
        raise LibvirtUnavailable("connection refused")

    monkeypatch.setattr(live_checks, "connect", connect)
    record = instance()
    problems = live_checks.judge(Found(), record, {**SEEN, "address": "2001:db8::12"}, True, POOL)
    assert len(problems) == 1 and "connection refused" in problems[0]


def test_everything_is_said_at_once(monkeypatch):
    monkeypatch.setattr(certificates, "faults", lambda: ["none here"])
    record = instance({"numa_topology": {}, "pci_devices": ["0000:01:00.0"]})
    seen = {**SEEN, "problems": ["no room", "no bridge"], "certificates": ["none there"]}
    there = {"numa_topology": {"cells": [{"id": 0}]}}
    assert len(live_checks.judge(Found(snapshots=["one"]), record, seen, True, POOL, there)) == 7


def test_a_guest_is_described_by_what_it_runs_with(tmp_path):
    (tmp_path / "root.qcow2").write_bytes(b"x" * 5000)
    xml = "<domain type='kvm'><os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os>%s</domain>"
    cpus = {
        "<cpu mode='custom'><model>Nehalem</model></cpu>": (True, False),
        "<cpu mode='host-passthrough'/>": (False, True),
    }
    for cpu, expected in cpus.items():
        found = types.SimpleNamespace(XMLDesc=lambda flags, cpu=cpu: xml % cpu)
        connection = types.SimpleNamespace(
            getVersion=lambda: 7, getCapabilities=lambda: "<capabilities><host><cpu/></host></capabilities>"
        )
        guest = live_checks.describe(connection, found, [str(tmp_path / "root.qcow2")])
        assert (guest["cpu"] is not None, guest["host_cpu"] is not None) == expected
        assert guest["bytes"] == os.stat(tmp_path / "root.qcow2").st_blocks * 512
        assert (guest["machine"], guest["virt_type"]) == ("pc-q35-7.2", "kvm")


def test_cells_that_a_destination_says_are_cells_or_its_reply_is_none():
    """The source makes a definition of them."""
    said = {"numa_topology": {"cells": [{"id": "0' evil='", "cpu_pinning": {"0": "no number"}}]}}
    with pytest.raises(Fault):
        reply_shapes._RESOURCES(said)
