# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the destination of a live migration is told of the guest."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from xml.etree import ElementTree

import fake_libvirt
import pytest
from move_side import SPECS

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import live, live_checks
from ansible_collections.berth.kvm.plugins.module_utils.model import hints
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import MigrationError

# as libvirt 9 gives it after it was started anew under a running guest
GUEST = """
<domain type='kvm'><name>guest</name><devices>
  <disk type='file' device='disk'>
    <driver name='qemu' type='qcow2'/><source file='/pool/root.qcow2'/>
    <backingStore type='file'><format type='qcow2'/><source file='/pool/images/457f'/><backingStore/></backingStore>
    <target dev='vda' bus='virtio'/>
  </disk>
  <disk type='file' device='cdrom'><source file='/pool/seed.iso'/><backingStore/><target dev='vdb'/></disk>
  <interface type='bridge'><source bridge='br0'/></interface>
</devices></domain>
"""


def test_the_destination_is_not_told_of_backing_images_and_of_all_else():
    told = ElementTree.fromstring(live.without_backing_images(GUEST))
    assert [element.tag for element in told.iter("backingStore")] == []
    assert [element.get("file") for element in told.iter("source")] == ["/pool/root.qcow2", "/pool/seed.iso", None]
    assert [element.get("dev") for element in told.iter("target")] == ["vda", "vdb"]
    assert told.find("devices/interface/source").get("bridge") == "br0"


PINNED = """
<domain type='kvm'><vcpu>2</vcpu>
  <cputune><shares>500</shares><vcpupin vcpu='0' cpuset='2'/><vcpupin vcpu='1' cpuset='3'/><emulatorpin cpuset='2-3'/></cputune>
  <numatune><memory mode='strict' nodeset='0'/><memnode cellid='0' mode='strict' nodeset='0'/></numatune>
  <cpu><numa><cell id='0' cpus='0-1' memory='65536' unit='KiB'/></numa></cpu><devices/>
</domain>
"""
THERE = [{"id": 1, "cpuset": [], "pcpuset": [0, 1], "memory_mb": 64, "cpu_pinning": {"0": 8, "1": 9}}]
SPEC = dict(SPECS["new"], flavor=dict(SPECS["new"]["flavor"], extra_specs={"hw:cpu_policy": "dedicated"}))


def test_on_the_destination_a_guest_is_bound_to_what_the_claim_there_set_aside():
    root = ElementTree.fromstring(live_checks.bound_to_cells(PINNED, SPEC, THERE))
    pins = {pin.get("vcpu"): pin.get("cpuset") for pin in root.iterfind("cputune/vcpupin")}
    assert pins == {"0": "8", "1": "9"} and root.find("cputune/emulatorpin").get("cpuset") == "8-9"
    assert root.find("numatune/memory").get("nodeset") == root.find("numatune/memnode").get("nodeset") == "1"
    assert root.find("cpu/numa/cell").get("cpus") == "0-1", "what the guest sees of itself stays"
    assert root.findtext("cputune/shares") == "500", "what somebody tuned by hand stays"


def test_a_real_time_vcpu_is_one_there_too():
    specs = {"hw:cpu_policy": "dedicated", "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"}
    spec = dict(SPEC, flavor=dict(SPEC["flavor"], extra_specs=specs))
    root = ElementTree.fromstring(live_checks.bound_to_cells(PINNED, spec, THERE))
    assert root.find("cputune/vcpusched").get("vcpus") == "1" and root.find("cputune/emulatorpin").get("cpuset") == "8"


def test_a_guest_that_only_shares_cpus_of_its_cells_has_no_pins():
    shared = [{"id": 3, "cpuset": [0, 1], "pcpuset": [], "memory_mb": 64, "cpu_pinning": {}}]
    root = ElementTree.fromstring(live_checks.bound_to_cells(PINNED, SPEC, shared))
    assert root.findall("cputune/vcpupin") == [] and root.find("numatune/memory").get("nodeset") == "3"


def test_a_guest_is_brought_to_the_pool_of_its_destination_where_that_has_another_path():
    """Pools of one name may have different paths."""
    beside, uuid = "%s/instances/9d852d78-5efb-58b1-992e-e3c61db183f7/", "9d852d78-5efb-58b1-992e-e3c61db183f7"
    own, record = GUEST.replace("/pool/", beside % "/pool"), SimpleNamespace(uuid=uuid, spec=SPEC)
    there = ElementTree.fromstring(live._as_there(own, record, "/pool", {"shared": False, "pool_path": "/srv/berth"}))
    files = [source.get("file") for source in there.iterfind("devices/disk/source")]
    assert files == [beside % "/srv/berth" + name for name in ("root.qcow2", "seed.iso")]


NAMES = "LIVE PEER2PEER PAUSED AUTO_CONVERGE TLS NON_SHARED_DISK".split()
LIBRARY = SimpleNamespace(
    libvirtError=OSError, VIR_DOMAIN_XML_MIGRATABLE=1, VIR_DOMAIN_XML_SECURE=2, VIR_MIGRATE_PARAM_URI="uri",
    VIR_MIGRATE_PARAM_DEST_XML="xml", VIR_MIGRATE_PARAM_MIGRATE_DISKS="disks",
    VIR_MIGRATE_PARAM_LISTEN_ADDRESS="listen", VIR_MIGRATE_PARAM_DEST_NAME="name", VIR_ERR_NO_DOMAIN=42,
    VIR_MIGRATE_PARAM_BANDWIDTH="bandwidth",
    **{"VIR_MIGRATE_" + name: 1 << at for at, name in enumerate(NAMES)},
)  # fmt: skip


def sent(monkeypatch, text, shared, there=None, problems=(), remote=None, options=None, **targets):
    """What libvirt is given: {xml: the definition for the destination, where it is another, disks: the names of those to
    copy, flags: a set of names}"""
    monkeypatch.setattr(connection, "libvirt", LIBRARY)
    given = []

    def migrate(uri, parameters, flags):
        given.append({**parameters, "flags": {name for at, name in enumerate(NAMES) if flags & 1 << at}})

    unbounded = SimpleNamespace(migrateToURI3=migrate)
    guest = SimpleNamespace(XMLDesc=lambda flags: text, name=lambda: "u", unbounded=unbounded)
    monkeypatch.setattr(live, "watch", lambda found, uuid, thread, limit, copying: thread.join())
    record = SimpleNamespace(uuid="u", spec=SPEC, resources={}, power_state="running")
    monkeypatch.setattr(
        live, "disk_problems", lambda *given: problems if given == (text, record, "/pool", shared) else 1 / 0
    )
    try:
        live.start(
            guest,
            record,
            "/pool",
            {"address": "192.0.2.2", "shared": shared, "pool_path": "/pool", **targets},
            options or {},
            there,
            remote,
        )
    except MigrationError as error:
        return given, str(error)
    return given[0]


@pytest.mark.parametrize("shared", [True, False])
def test_a_disk_that_somebody_took_since_the_check_ends_it_before_libvirt_is_asked(monkeypatch, shared):
    """Between the check and libvirt's job anybody may: it would arrive empty, and the end of the move removes what is here."""
    assert sent(monkeypatch, PINNED, shared, problems=["a disk was taken"]) == ([], "a disk was taken")


@pytest.mark.parametrize("shared", [True, False])
def test_libvirt_is_given_the_cells_of_the_destinations_claim(monkeypatch, shared):
    text = sent(monkeypatch, PINNED, shared, {"numa_topology": {"cells": THERE}})["xml"]
    assert ElementTree.fromstring(text).find("cputune/vcpupin").get("cpuset") == "8"


def test_of_a_guest_without_cells_on_one_storage_nothing_is_changed(monkeypatch):
    assert "xml" not in sent(monkeypatch, PINNED, True, {"numa_topology": None})


DISKS = (
    """<domain><devices>
  <disk device="disk"><source file="/pool/instances/u/root.qcow2"/><target dev="vda"/></disk>
  <disk device="disk"><source file="/pool/volumes/v/disk.qcow2"/><target dev="vdb"/><readonly/></disk>
  <disk device="disk"><source file="/pool/instances/u/%s"/><target dev="vdc"/><readonly/></disk>
  <disk device="cdrom"><target dev="sda"/></disk>
</devices></domain>"""
    % disk.SEED.file
)


def test_libvirt_is_told_each_disk_to_copy_also_one_that_was_made_read_only_by_hand(monkeypatch):
    assert sent(monkeypatch, DISKS, False).get("disks") == ["vda", "vdb"]


def test_qemu_listens_on_the_address_that_the_source_goes_to_where_the_destination_has_it_itself(monkeypatch):
    assert sent(monkeypatch, DISKS, False, binds=True)["listen"] == "192.0.2.2"
    assert "listen" not in sent(monkeypatch, DISKS, False, binds=False), "a router is before it"


@pytest.mark.parametrize("waits, told", [("u", None), ("web-five", "web-five"), (None, None)])
def test_a_guest_of_another_name_than_the_definition_that_waits_for_it_gets_that_name(monkeypatch, waits, told):
    """Somebody renamed one of the two by virsh domrename, and libvirt takes no guest of another name."""

    def look(_uuid):
        if waits is None:
            raise libvirt_error(LIBRARY.VIR_ERR_NO_DOMAIN)
        return SimpleNamespace(name=lambda: waits)

    assert sent(monkeypatch, DISKS, False, remote=SimpleNamespace(lookupByUUIDString=look)).get("name") == told


def libvirt_error(code):
    error = OSError("no domain with matching uuid")
    error.get_error_code = lambda: code
    return error


def test_on_one_storage_no_disk_is_copied(monkeypatch):
    assert "disks" not in sent(monkeypatch, DISKS, True)


ALWAYS = {"LIVE", "PEER2PEER", "PAUSED"}


@pytest.mark.parametrize(
    "options, shared, flags",
    [
        ({}, True, {"TLS", "AUTO_CONVERGE"}),
        ({}, False, {"TLS", "AUTO_CONVERGE", "NON_SHARED_DISK"}),
        ({"tls": True, "permit_auto_converge": True}, True, {"TLS", "AUTO_CONVERGE"}),
        ({"tls": False}, True, {"AUTO_CONVERGE"}),
        ({"permit_auto_converge": False}, True, {"TLS"}),
    ],
)
def test_a_guest_arrives_paused_encrypted_and_slowed_down_where_it_may_be(monkeypatch, options, shared, flags):
    assert sent(monkeypatch, DISKS, shared, options=options)["flags"] == ALWAYS | flags


@pytest.mark.parametrize("options, told", [({}, None), ({"bandwidth": 0}, None), ({"bandwidth": 7}, 7)])
def test_libvirt_is_given_the_limit_on_the_bandwidth(monkeypatch, options, told):
    assert sent(monkeypatch, DISKS, False, options=options).get("bandwidth") == told


def test_whoever_asked_for_the_migration_learns_that_the_time_limit_stopped_the_guest(monkeypatch):
    now = {"copied": 0}
    guest = SimpleNamespace(
        jobStats=lambda _flags: {"memory_total": 9, "memory_remaining": 1, "memory_processed": now["copied"]}
    )
    guest.XMLDesc, guest.name, guest.suspend = lambda _flags: PINNED, lambda: "u", lambda: now.update(stopped=True)

    def migrate(*_asked):
        while not now.get("stopped"):
            now["copied"] += 1

    guest.unbounded = SimpleNamespace(migrateToURI3=migrate)
    monkeypatch.setattr(connection, "libvirt", LIBRARY)
    monkeypatch.setattr(live, "POLL", 0.01)
    monkeypatch.setattr(live, "note", lambda *_: None)
    monkeypatch.setattr(live, "disk_problems", lambda *_: ())
    record, options = (
        SimpleNamespace(uuid="u", spec=SPEC, resources={}, power_state="running"),
        {"timeout": 0.01, "timeout_action": "force_complete"},
    )
    assert live.start(guest, record, "/pool", {"address": "192.0.2.2", "shared": True}, options) is True


# the job of a guest whose disks are copied
COPIES_MEMORY = {"memory_total": 9 << 20, "memory_remaining": 1 << 20, "memory_processed": 8 << 20}


@pytest.mark.parametrize("action, call", [("abort", "abortJob"), ("force_complete", "suspend")])
def test_at_the_time_limit_it_is_tried_until_libvirt_has_a_job_to_end(monkeypatch, action, call):
    library = fake_libvirt.library()
    monkeypatch.setattr(connection, "libvirt", library)
    monkeypatch.setattr(live, "POLL", 0.01)
    monkeypatch.setattr(live, "note", lambda *_: None)
    calls, ended, processed = [], threading.Event(), iter(range(1 << 30))

    def end():
        calls.append(call)
        if len(calls) < 3:
            raise library.libvirtError(55, "no job is active")
        ended.set()

    thread = threading.Thread(target=ended.wait, args=(5,))
    thread.start()

    def stats(_flags):
        return {**COPIES_MEMORY, "memory_remaining": 1, "memory_processed": next(processed)}

    guest = SimpleNamespace(jobStats=stats, **{call: end})
    limit = live.limit_of(guest, {"timeout": 0.01, "timeout_action": action})
    live.watch(guest, "uuid", thread, limit, live.live_watch.Stalled(guest))
    assert calls == [call] * 3


class Followed:
    """A guest that another run migrates, until ``is_over``; ``left``: how that ends."""

    def __init__(self, monkeypatch, is_over, left=False):
        self.left = left
        monkeypatch.setattr(connection, "libvirt", fake_libvirt.library())
        monkeypatch.setattr(live, "POLL", 0.01)
        monkeypatch.setattr(live, "note", lambda *_: None)
        monkeypatch.setattr(live.guests, "find", lambda *_: self)
        monkeypatch.setattr(live, "is_migrating", lambda _found: not is_over())
        monkeypatch.setattr(live, "is_halted", lambda *_: False)
        monkeypatch.setattr(live, "has_left", lambda *_: self.left)

    def isActive(self):
        return True

    def state(self):
        return [fake_libvirt.library().VIR_DOMAIN_PAUSED, 0]

    def resume(self):
        self.went_on = True

    def jobStats(self, _flags):  # noqa: N802
        self.copied = getattr(self, "copied", 0) + 1
        return {"memory_total": 9, "memory_remaining": 0, "memory_processed": self.copied}


@pytest.mark.parametrize("left", [True, False])
def test_whoever_followed_a_migration_learns_whether_the_guest_left_by_it(monkeypatch, left):
    looks = iter([False, False, True])
    Followed(monkeypatch, lambda: next(looks), left)
    assert live.follow("source", "uuid", {"timeout": 60}) is left


def test_where_no_migration_runs_there_is_none_to_follow(monkeypatch):
    Followed(monkeypatch, lambda: True, left=True)
    assert live.follow("source", "uuid", {}) is False


def test_a_followed_migration_that_is_ended_at_the_time_limit_is_an_error(monkeypatch):
    """Else this run would begin it anew, against what the time limit is for."""
    calls = []
    guest = Followed(monkeypatch, lambda: bool(calls))
    guest.abortJob = lambda: calls.append("abortJob")
    with pytest.raises(MigrationError, match="its time limit"):
        live.follow("source", "uuid", {"timeout": 0.01, "timeout_action": "abort"})
    assert guest.went_on


def test_a_followed_migration_that_ends_by_suspending_the_guest_at_the_time_limit_is_none(monkeypatch):
    calls = []
    Followed(monkeypatch, lambda: bool(calls), left=True).suspend = lambda: calls.append("suspend")
    assert live.follow("source", "uuid", {"timeout": 0.01, "timeout_action": "force_complete"}) is True
    assert calls == ["suspend"]


ARRIVED = [fake_libvirt.library().VIR_DOMAIN_PAUSED, fake_libvirt.library().VIR_DOMAIN_PAUSED_USER]


def gone(monkeypatch, there, left=True, is_active=lambda: False):
    """What migrate() does on a source whose guest is off, beside a destination where it is in the state ``there``."""
    monkeypatch.setattr(connection, "libvirt", fake_libvirt.library())
    monkeypatch.setattr(live, "has_left", lambda *_: bool(left))
    monkeypatch.setattr(live, "connect", lambda **_: "destination")
    sides = {"source": SimpleNamespace(isActive=is_active), "destination": SimpleNamespace(state=lambda: there)}
    monkeypatch.setattr(live.guests, "find", lambda at, _uuid: sides[getattr(at, "unbounded", at)])
    effects = SimpleNamespace(connection="source", pool_path=lambda _record: "/pool")
    return live.migrate(effects, SimpleNamespace(uuid="u"), {"address": "192.0.2.2", "arrived": False}, {})


def test_a_guest_that_went_over_since_the_destination_looked_is_not_taken_for_ended(monkeypatch):
    """The run before was cut off from the source, whose migration went on and has just ended."""
    assert gone(monkeypatch, ARRIVED) == (None, None)


def test_a_guest_whose_migration_ends_between_two_looks_is_not_taken_for_ended(monkeypatch):
    """The job of another run ended right before this one asked whether the guest is on."""
    left = []

    def is_active():
        left.append(True)
        return False

    assert gone(monkeypatch, ARRIVED, left=left, is_active=is_active) == (None, None)


def test_a_guest_that_left_and_is_not_on_the_destination_is_not_given_up(monkeypatch):
    with pytest.raises(MigrationError, match="left the source by a migration and is not on the destination"):
        gone(monkeypatch, [fake_libvirt.library().VIR_DOMAIN_SHUTOFF, 0])


def test_a_guest_that_ended_on_the_source_is_not_given_up_for_a_copy_that_waits_there(monkeypatch):
    with pytest.raises(MigrationError, match="is off on the source"):
        gone(monkeypatch, ARRIVED, left=False)


def test_a_followed_migration_whose_job_has_ended_is_waited_for_until_libvirt_says_what_became_of_the_guest(
    monkeypatch,
):
    states = iter(["paused", "paused", "left"])
    now = []
    monkeypatch.setattr(live, "POLL", 0.01)
    monkeypatch.setattr(live, "is_halted", lambda *_: now.append(next(states)) or now[-1] == "paused")
    monkeypatch.setattr(live, "has_left", lambda *_: now[-1] == "left")
    assert live.has_left_at_last("source", "u") is True


def test_a_guest_that_stays_paused_after_a_followed_migration_has_not_left(monkeypatch):
    monkeypatch.setattr(live, "POLL", 0.01)
    monkeypatch.setattr(live, "SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(live, "is_halted", lambda *_: True)
    monkeypatch.setattr(live, "has_left", lambda *_: False)
    assert live.has_left_at_last("source", "u") is False


def refused(monkeypatch, is_left, there):
    """What migrate() does where libvirt refuses: ``is_left`` says in turn whether the guest has left; ``there``: whether
    the destination has a guest with its uuid."""

    def refuse(*_ignored):
        raise MigrationError("libvirt: domain is not running")

    monkeypatch.setattr(live, "start", refuse)
    monkeypatch.setattr(live, "Downtime", lambda *_: None)
    monkeypatch.setattr(live, "is_migrating", lambda _found: False)
    monkeypatch.setattr(live.left_backup, "end_backup_of", lambda *_: None)
    monkeypatch.setattr(connection, "libvirt", fake_libvirt.library())
    looks = iter(is_left)
    monkeypatch.setattr(live, "has_left", lambda *_: next(looks))
    monkeypatch.setattr(live, "connect", lambda **_: "destination")
    guest = SimpleNamespace(isActive=lambda: True, state=lambda: ARRIVED)
    monkeypatch.setattr(live.guests, "find", lambda *_: guest)
    monkeypatch.setattr(live.guests, "is_active", lambda *_: there)
    effects = SimpleNamespace(connection=SimpleNamespace(unbounded="source"), pool_path=lambda _record: "/pool")
    asked = {"address": "192.0.2.2", "arrived": False}
    return live.migrate(effects, SimpleNamespace(uuid="u"), asked, {})


def test_a_migration_that_fails_since_another_run_has_just_ended_it_has_succeeded(monkeypatch):
    assert refused(monkeypatch, [False, True], there=True) == (None, None)


def test_a_migration_that_fails_over_a_copy_on_the_destination_says_to_run_again(monkeypatch):
    """The next run removes the copy: the guest here went on."""
    with pytest.raises(MigrationError, match="domain is not running.*still has a copy of the guest") as raised:
        refused(monkeypatch, [False, False], there=True)
    assert raised.value.hint == hints.run_again()


def test_any_other_failure_of_a_migration_is_libvirts_own(monkeypatch):
    with pytest.raises(MigrationError, match="domain is not running$"):
        refused(monkeypatch, [False, False], there=False)


@pytest.mark.parametrize("action, call", [("abort", "abortJob"), ("force_complete", "suspend")])
def test_a_followed_migration_that_libvirt_cannot_end_yet_is_followed_further(monkeypatch, action, call):
    """Who takes it for ended gives the move up while the guest is still on its way."""
    calls = []

    def end():
        calls.append(call)
        if len(calls) < 3:
            raise fake_libvirt.library().libvirtError(55, "cannot be ended in this phase")

    guest = Followed(monkeypatch, lambda: len(calls) == 3, left=True)
    setattr(guest, call, end)
    live.follow("source", "uuid", {"timeout": 0.01, "timeout_action": action})
    assert calls == [call] * 3


def test_a_migration_that_is_followed_goes_on_where_its_progress_cannot_be_written(monkeypatch, tmp_path):
    """The run that began it has ended it, and removed the directory, between two looks."""
    monkeypatch.setattr(connection, "libvirt", fake_libvirt.library())
    monkeypatch.setattr(live, "POLL", 0.01)
    monkeypatch.setattr(live.transfer, "RUN_DIR", str(tmp_path))
    monkeypatch.setattr(live.transfer, "make_directories", lambda _uuid: None)
    looks = iter([True, True, False])
    monkeypatch.setattr(live, "is_migrating", lambda _found: next(looks))
    monkeypatch.setattr(live, "has_left_at_last", lambda *_: True)
    found = SimpleNamespace(jobStats=lambda _flags: {"memory_total": 2, "memory_processed": 1}, isActive=lambda: True)
    found.XMLDesc = lambda _flags: GUEST
    monkeypatch.setattr(live.guests, "find", lambda *_: found)
    live.follow("source", "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a", {})
    assert next(looks, None) is None


def test_progress_counts_what_disks_take_up_and_not_their_virtual_size(tmp_path, monkeypatch):
    disk, seed = tmp_path / "root.qcow2", tmp_path / "seed.iso"
    disk.write_bytes(b"x" * (1 << 20))
    seed.write_bytes(b"x" * (1 << 20))
    written = []
    monkeypatch.setattr(live.transfer, "make_directories", lambda _uuid: None)
    monkeypatch.setattr(live.transfer, "write_progress", lambda _uuid, *said, **_more: written.append(said))
    xml = GUEST.replace("/pool/root.qcow2", str(disk)).replace("/pool/seed.iso", str(seed))
    stats = {"disk_total": 8 << 30, "disk_processed": 2 << 30, "memory_total": 1 << 20, "memory_processed": 1 << 19}
    found = SimpleNamespace(jobStats=lambda _flags: {**stats, "time_elapsed": 1000}, XMLDesc=lambda _flags: xml)
    live.note(found, "uuid")
    on_disk = disk.stat().st_blocks * 512
    ((_state, done, total, rate),) = written
    assert (done, total, rate) == ((1 << 19) + on_disk // 4, (1 << 20) + on_disk, done)
    disk.unlink()
    live.note(found, "uuid")
    assert written[1][1:3] == (1 << 19, 1 << 20)


def test_a_job_that_has_not_begun_to_copy_has_no_progress():
    live.note(SimpleNamespace(jobStats=lambda _flags: {"type": 1}), "uuid")
