# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rebuild on a host: real qcow2 files, a libvirt in memory. The guest's root disk is the old one or the new one, and whole."""

from __future__ import annotations

import copy
import subprocess

import pytest
from data_disk_case import needs_qemu_img
from instance_case import Case, Killed
from volume_case import make_house

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk, image, inside, layers, room
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import ImageUnavailable
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import (
    acts,
    domain_xml,
    gate,
    given_up,
    power,
    seed,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.rebuild import RebuildDiscards, RebuildNotPossible
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.update_disks import update_disks
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import ledger
from ansible_collections.berth.kvm.plugins.module_utils.conductor import adopting
from ansible_collections.berth.kvm.plugins.module_utils.model import hints, operation_hints, request_digest, snapshots
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import InstanceInvalidState

pytestmark = needs_qemu_img
OLD, NEW = "sha256:" + "0" * 64, "sha256:" + "1" * 64
PATTERN = {OLD: 1, NEW: 2}  # what a disk has that was made from the image
STEPS = [
    "rebuild image",
    "rebuild stop",
    "rebuild root",
    "rebuild seed",
    "rebuild define",
    "rebuilt",
    "start guest",
    "start done",
]
COMMITTED = STEPS[2:]


def qemu_io(path, command):
    return subprocess.run(["qemu-io", "-f", "qcow2", "-c", command, str(path)], capture_output=True, check=False)


def make(planned, path, base):
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "--", path, str(planned.size)], check=True)
    if base and planned.name == "root":
        assert not qemu_io(path, "write -P %d 0 64k" % base["pattern"]).returncode


class Web(Case):
    """web1 runs with a root disk of 1 GiB and a data disk; ``wanted`` is what its inventory says by now."""

    def params(self, discards="web1", **more):
        given = dict.fromkeys(("token", "changed_disks", "after", "snapshot"))
        return {
            **given, "state": "rebuilt", "spec": self.wanted, "seed": self.seed, "discards_root": discards, "shutdown_timeout": 0,
            "mend": False, **more,
        }  # fmt: skip

    def rebuild(self, killed_at=None, **more):
        return acts.act(self.instance(killed_at), self.params(**more), False)

    def would(self, **more):
        return acts.act(self.instance(), self.params(**more), True)

    def root_is_of(self):
        return [
            image for image, byte in PATTERN.items() if not qemu_io(self.root, "read -P %d 0 64k" % byte).returncode
        ]

    @property
    def data(self):
        return self.root.parent / "data-logs.qcow2"

    def files(self):
        return sorted(path.name for path in self.root.parent.iterdir())


@pytest.fixture
def web(prepared, wanted, monkeypatch):
    make_house(prepared, wanted, monkeypatch)
    monkeypatch.setattr(disk, "make", make)
    monkeypatch.setattr(
        image, "ensure",
        lambda _pool, source, *_: {"path": "/i", "format": "qcow2", "virtual_size": 1 << 20, "pattern": PATTERN[source["checksum"]]},
    )  # fmt: skip
    one = Web(prepared, wanted("web1"))
    one.make()
    update_disks(one.instance(), [{"name": "logs", "size_gb": 2}])
    qemu_io(one.data, "write -P 7 0 64k")
    one.wanted = {**copy.deepcopy(one.record.spec), "image": {"name": "debian-13", "checksum": NEW, "properties": {}}}
    return one


def test_the_root_is_that_of_the_image_and_all_else_of_the_instance_stays(web):
    before = web.record
    assert web.would() and web.record == before
    assert web.rebuild()
    after = web.record
    assert web.root_is_of() == [NEW] and not qemu_io(web.data, "read -P 7 0 64k").returncode
    assert after.spec["image"]["name"] == "debian-13" and web.state() == ("active", None, "running", True)
    kept = ("uuid", "name", "project_id", "flavor", "networks", "disks")
    assert {part: after.spec[part] for part in kept} == {part: before.spec[part] for part in kept}
    assert after.resources == before.resources and (after.uuid, after.name) == (before.uuid, before.name)
    assert [each["event"] for each in after.history[-2:]] == ["rebuild", "start"]
    assert web.files() == sorted({"attached.json", "root.qcow2", "data-logs.qcow2", "seed.iso", "owner"})


@pytest.mark.follows("rebuild_to_follow")
def test_the_inventory_and_the_instance_agree_on_its_image_afterwards(web):
    asked = request_digest.digests(web.wanted)["image"]
    assert request_digest.digests(web.record.spec)["image"] != asked
    web.rebuild()
    assert request_digest.digests(web.record.spec)["image"] == asked


def test_cloud_init_takes_the_guest_for_a_new_one_each_time(web):
    seen = [seed.instance_id(web.record)]
    for _time in range(2):
        web.rebuild()
        seen.append(seed.instance_id(web.record))
        content = (web.root.parent / "seed.iso").read_bytes()
        assert b"instance-id: %s" % seen[-1].encode() in content
    assert len(set(seen)) == 3


def test_one_that_was_off_stays_off_and_again_is_no_change_until_it_has_run(web):
    web.instance().stopped(0)
    assert web.rebuild() and web.state() == ("stopped", None, "shutdown", False) and web.root_is_of() == [NEW]
    assert not web.would(discards=None) and not web.rebuild(discards=None)
    power.start(web.instance(), None, None)
    web.instance().stopped(0)
    assert web.would() and web.rebuild()


@pytest.mark.parametrize("what", ["image", "seed"])
def test_another_image_or_seed_is_another_rebuild_although_the_guest_did_not_run(web, what):
    web.instance().stopped(0)
    web.rebuild()
    if what == "image":
        web.wanted["image"] = {**web.wanted["image"], "checksum": OLD}
    else:
        web.seed = {**web.seed, "user_data": "#!/bin/sh"}
    assert web.rebuild() and web.root_is_of() == [OLD if what == "image" else NEW]


@pytest.mark.parametrize("discards", [None, "web2"])
@pytest.mark.follows("discard_root")
def test_what_is_lost_is_named_and_needs_its_word(web, discards):
    spec = {**web.record.spec, "snapshots": [{"name": "one", "size_gb": 1, "disks": [], "made_at": None}]}
    web.instance().swap(web.record.replace(spec=spec))
    before = web.record
    for ask in (web.would, web.rebuild):
        with pytest.raises(RebuildDiscards, match="web1 would lose root disk 1 GiB, snapshot one ") as refused:
            ask(discards=discards)
        assert refused.value.hint == operation_hints.discard_root("web1")
    assert web.record == before and web.root_is_of() == [OLD] and web.domain.isActive()
    assert given_up.words(web.instance(), "rebuilt", None) == ["root disk 1 GiB", "snapshot one"]
    assert web.rebuild()


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.follows("finish_disks")
def test_one_that_is_killed_leaves_the_old_root_or_the_new_one_and_the_next_run_ends_it(web, step, runs):
    if not runs:
        web.instance().stopped(0)
        if step.startswith("start"):
            return
    with pytest.raises(Killed):
        web.rebuild(killed_at=step)
    assert web.root_is_of() == [NEW if step in COMMITTED[1:] else OLD]
    assert (web.record.vm_state == "error") == (step in COMMITTED[:4])
    image_name = web.record.spec["image"]["name"]
    assert image_name == ("debian-13" if step in COMMITTED else "guest")
    if web.record.vm_state == "error":
        for start in (
            lambda: power.start(web.instance(), None, None),
            lambda: power.converge(web.instance(), None, None, "running", 1),
        ):
            with pytest.raises(InstanceInvalidState) as refused:
                start()
            assert refused.value.hint == hints.finish_disks("web1", "rebuilding")
        assert not power.would_recover(web.instance())
    elif step == "rebuild stop":
        assert not gate.is_permitted(web.uuid, web.host.run_dir) or web.domain.isActive()
    web.rebuild()
    assert web.root_is_of() == [NEW] and web.state() == (
        ("active", None, "running", True) if runs else ("stopped", None, "shutdown", False)
    )
    assert "root.qcow2.tmp" not in web.files()


def test_an_image_that_cannot_be_had_leaves_the_guest_running_as_it_was(web, monkeypatch):
    def gone(*_args):
        raise ImageUnavailable("404")

    monkeypatch.setattr(image, "ensure", gone)
    before = web.record
    with pytest.raises(ImageUnavailable):
        web.rebuild()
    assert web.record == before and web.domain.isActive() and web.root_is_of() == [OLD]


def test_a_copy_that_would_fill_the_pool_is_not_begun(web, monkeypatch):
    spec = {**web.record.spec, "flavor": {**web.record.spec["flavor"], "extra_specs": {"berth:root_disk": "full"}}}
    web.instance().swap(web.record.replace(spec=spec))
    monkeypatch.setattr(room, "run", lambda *_args, **_how: '{"required": 2097152}')
    monkeypatch.setattr(paths, "free_bytes", lambda _path: 1 << 20)
    before = web.record
    with pytest.raises(RebuildNotPossible, match="would take up to 2 MiB, of 1 MiB that are free"):
        web.rebuild()
    assert web.record == before and web.domain.isActive() and web.root_is_of() == [OLD]
    monkeypatch.setattr(paths, "free_bytes", lambda _path: 2 << 20)
    assert web.rebuild()


def test_what_fails_after_the_disk_is_told_and_the_next_run_ends_it(web, monkeypatch):
    define, refused = domain_xml.define_guest, [BerthError("no such device")]
    monkeypatch.setattr(domain_xml, "define_guest", lambda *given: _raise(refused.pop()) if refused else define(*given))
    with pytest.raises(BerthError, match="no such device"):
        web.rebuild()
    assert web.record.vm_state == "error" and web.record.faults[-1]["message"] == "no such device"
    assert web.rebuild() and web.state() == ("active", None, "running", True)


def _raise(error):
    raise error


def test_snapshots_go_with_their_room_and_the_data_disk_keeps_what_it_has(web):
    for path in (web.root, web.data):
        inside.make(str(path), snapshots.tag("one"))
    qemu_io(web.data, "write -P 8 0 64k")
    entry = {
        "name": "one",
        "made_at": "2026-01-01T00:00:00Z",
        "taken": "off",
        "size_gb": 3,
        "disks": ["root", "data-logs"],
    }
    record = web.record
    more = ledger.with_more(record.resources, {"disk_gb": 3, "resources": {"DISK_GB": 3}})
    web.instance().swap(record.replace(spec={**record.spec, "snapshots": [entry]}, resources=more))
    with pytest.raises(Killed):
        web.rebuild(killed_at="rebuild seed")
    web.rebuild()
    assert not web.record.spec.get("snapshots") and web.record.resources == record.resources
    assert [layers.snapshots_in(str(path)) for path in (web.root, web.data)] == [[], []]
    assert not qemu_io(web.data, "read -P 8 0 64k").returncode


def test_the_variables_of_its_firmware_and_the_addresses_of_its_devices_are_made_anew(web):
    variables = web.root.parent / disk.NVRAM.file
    variables.write_bytes(b"boot the old root")
    (web.root.parent / "kernel").write_bytes(b"of the old image")
    web.rebuild()
    assert not (web.root.parent / "kernel").exists()
    assert not variables.exists() or variables.read_bytes() != b"boot the old root"


@pytest.mark.parametrize(
    "what, words",
    [
        ({"image": {"name": "x", "checksum": NEW, "properties": {"hw_cpu_policy": "dedicated"}}}, "hw_cpu_policy None"),
        (
            {"image": {"name": "x", "checksum": NEW, "properties": {"trait:HW_CPU_X86_SGX": "required"}}},
            "traits_required",
        ),
        (
            {"image": {"name": "x", "checksum": NEW, "min_ram": 4096}},
            "memory_mb [0-9]+ MiB, and the image's min_ram is 4096",
        ),
        ({"image": {"name": "x", "checksum": NEW, "min_disk": 9}}, "root_gb 1 GiB, and the image's min_disk is 9"),
        ({"networks": [{"mac": "02:00:00:00:00:09", "network": "dmz"}]}, "network interfaces"),
    ],
)
@pytest.mark.follows("update_first")
def test_what_a_rebuild_does_not_bring_is_refused_before_anything_is_done(web, what, words):
    web.wanted.update(what)
    before = web.record
    for ask in (web.would, web.rebuild):
        with pytest.raises(RebuildNotPossible, match=words) as refused:
            ask()
        assert refused.value.hint == operation_hints.update_first("web1")
    assert web.record == before and web.root_is_of() == [OLD]
    web.wanted.update(image=before.spec["image"], networks=[])
    assert web.rebuild()


def test_one_that_boots_from_a_volume_is_refused(web):
    spec = {**web.record.spec, "volumes": [{"name": "sys", "size_gb": 1, "boot_index": 0, "slot": 0}]}
    web.instance().swap(web.record.replace(spec=spec))
    with pytest.raises(RebuildNotPossible, match="boots from a volume"):
        web.rebuild()


@pytest.mark.parametrize("state", ["paused", "suspended"])
def test_it_is_legal_in_the_states_of_nova(web, state):
    web.instance().swap(web.record.replace(vm_state=state))
    with pytest.raises(InstanceInvalidState):
        web.rebuild()


def test_disks_of_a_restore_that_did_not_end_are_not_hidden(web):
    web.instance().stopped(0)
    web.instance().swap(web.record.replace(vm_state="error", task_state="restoring"))
    with pytest.raises(InstanceInvalidState) as refused:
        web.rebuild()
    assert refused.value.hint == hints.finish_disks("web1", "restoring")


def test_adopted_instances_are_refused(web):
    assert "rebuild" in adopting.ONLY_OF_CREATED and acts.NOT_OF_ADOPTED["rebuilt"] == "rebuild"
