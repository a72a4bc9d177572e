# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storage pool runs full, or can only be read any more, in the middle of a build: a real file system, real images and disks. The
build ends with an error that says so, no guest runs, and the same run brings what was asked for when the pool is well again."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import subprocess

import pytest
from instance_case import Case, Killed

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk, image
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DiskChainChanged
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.instance import Instance
from ansible_collections.berth.kvm.plugins.module_utils.model import hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("qemu-img"), reason="mounts a file system and makes images"
)
REAL_ENSURE, REAL_MAKE = image.ensure, disk.make
MIB = 1 << 20
STEPS = ["build begin", "build disks", "build volumes", "build seed", "build define", "build active"]


class Pool:
    def __init__(self, path):
        self.path = path
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=711", "pool", path], check=True)

    def remount(self, options):
        subprocess.run(["mount", "-o", "remount," + options, self.path], check=True)

    def fill(self, free):
        """Leave so many bytes."""
        status = os.statvfs(self.path)
        with open(self.path / "others", "wb") as stream:
            stream.write(b"x" * (status.f_bavail * status.f_frsize - free))

    def make_room(self):
        (self.path / "others").unlink()


@pytest.fixture
def pool(tmp_path):
    path = tmp_path / "filesystem"
    path.mkdir()
    made = Pool(path)
    yield made
    subprocess.run(["umount", path], check=True)


@pytest.fixture
def web(make_host, wanted, monkeypatch, pool, tmp_path):
    """An instance whose image has 6 MiB of data, on a host whose pool is a file system of its own."""
    host = make_host(pool=pool.path)
    monkeypatch.setattr(image, "ensure", REAL_ENSURE)
    monkeypatch.setattr(disk, "make", REAL_MAKE)
    raw, source = tmp_path / "raw", tmp_path / "guest.qcow2"
    raw.write_bytes(os.urandom(6 * MIB) + bytes(58 * MIB))
    subprocess.run(["qemu-img", "convert", "-O", "qcow2", raw, source], check=True)
    host.settings = dataclasses.replace(host.settings, image_directories=(str(tmp_path),))
    spec, seed = wanted()
    checksum = "sha256:" + hashlib.sha256(source.read_bytes()).hexdigest()
    spec["image"].update(url=str(source), checksum=checksum, disk_format="qcow2")
    return Case(host, (spec, seed))


def struck(web, step, strike):
    """A build during which ``strike`` is called at a step."""

    def observe(reached):
        if reached == step:
            strike()

    web.claim()
    return Instance(web.host, web.uuid, timeout=1, observe=observe).started("t1", web.seed)


def check_made_anew(web):
    """The same run again: claimed where nothing was left, and built."""
    if web.record is not None and web.record.phase == "deleting":
        web.instance().absent()
    web.make()
    assert web.state() == ("active", None, "running", True) and web.root.exists()
    with open(web.root, "rb") as stream:
        assert stream.read(4) == b"QFI\xfb"


@pytest.mark.parametrize("free", [0, MIB, 5 * MIB])
def test_a_pool_that_runs_full_while_the_image_is_copied_leaves_nothing_and_may_go_elsewhere(web, pool, free):
    pool.fill(free)
    web.claim()
    with pytest.raises(BerthError) as failed:
        web.instance().started("t1", web.seed)
    assert failed.value.retryable and failed.value.code != "BuildBroken", failed.value
    assert (web.record, web.domain, web.root.parent.exists()) == (None, None, False)
    images = pool.path / "images"
    assert not images.exists() or [name for name in os.listdir(images) if not name.endswith(".lock")] == []
    pool.make_room()
    check_made_anew(web)


@pytest.mark.follows("bring_disks_back", "delete_changed_disks")
@pytest.mark.parametrize("killed_at", ["delete permit", "delete disks", "delete volumes", "delete record"])
def test_a_delete_that_was_ended_is_not_gone_on_with_while_the_pool_is_not_mounted(web, pool, killed_at):
    """Its record would be gone, and its disks there again with the pool."""
    web.make()
    with pytest.raises(Killed):
        web.instance(killed_at).absent()
    away = pool.path / "instances"
    away.rename(pool.path / "unmounted")
    before = web.record
    for act in (web.instance().absent, web.instance().would_remove, lambda: web.instance().started("t1", web.seed)):
        with pytest.raises(DiskChainChanged) as refused:
            act()
        assert hints.bring_disks_back("kvm1", "web1") in refused.value.hint and web.record == before
    assert web.instance().would_remove(changed_disks=True)
    (pool.path / "unmounted").rename(away)
    assert web.instance().absent() and (web.record, web.root.parent.exists()) == (None, False)


@pytest.mark.parametrize("step", STEPS)
def test_a_pool_that_can_only_be_read_in_mid_build_starts_no_guest_and_the_next_run_builds(web, pool, step):
    try:
        struck(web, step, lambda: pool.remount("ro"))
    except BerthError as failed:
        assert failed.retryable or failed.code == "CleanupFailed", failed
        assert failed.code != "BuildBroken" and "ead-only" in str(failed), failed
        assert web.domain is None or not web.domain.isActive()
    else:
        assert step in ("build define", "build active") and web.root.exists()
    pool.remount("rw")
    if web.record is not None and web.record.phase == "active":
        return
    check_made_anew(web)
