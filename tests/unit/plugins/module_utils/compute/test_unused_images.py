# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cached images are removed only where nothing can need them: an overlay without its image is a lost disk."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from instance_case import Case

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import owner, unused_images

OLD, OTHER = "1" * 64, "f" * 64


@pytest.fixture
def web(prepared, wanted):
    """A running instance, its image in the cache, and two images that nobody needs."""
    web = Case(prepared, wanted("web1"))
    web.make()
    needed = web.record.spec["image"]["checksum"].split(":")[1]
    for name in (needed, OLD, OTHER):
        cache(web, name)
    prepared.pool_paths = lambda: [str(prepared.pool)]
    return web


def cache(web, name, content="image"):
    path = web.host.pool / "images" / name
    path.parent.mkdir(mode=0o711, exist_ok=True)
    path.write_text(content)
    return path


def remaining(web):
    return {path.name for path in (web.host.pool / "images").iterdir()}


def removed(web, dry=False):
    before = remaining(web)
    said = {path.rsplit("/", 1)[1] for path in unused_images.remove(web.host, dry)}
    assert dry and remaining(web) == before or before - remaining(web) == said
    return said


def test_what_no_record_no_disk_and_no_guest_names_is_removed(web):
    assert removed(web, dry=True) == {OLD, OTHER}
    assert removed(web) == {OLD, OTHER}
    assert removed(web) == set()


def test_what_an_ended_download_left_is_removed_and_what_create_did_not_put_there_stays(web):
    os.utime(cache(web, OLD + ".tmp"), (1, 1))
    cache(web, OTHER + ".tmp")  # a download of another host with the same storage, which goes on
    for name in ("debian.qcow2", OLD[:-1], OLD + "0", OLD + ".bak", "vm1"):
        cache(web, name)
    assert removed(web) == {OLD, OLD + ".tmp", OTHER}


def test_an_image_of_a_move_or_of_a_volume_that_is_being_made_stays(web):
    record = web.record
    records = [
        record.replace(migration={"new_spec": {"image": {"checksum": "sha256:" + OLD}}}),
        record.replace(spec={"volumes": [{"image": {"checksum": "sha256:" + OTHER}}]}),
    ]
    web.host.store.records = lambda: records
    assert not removed(web) & {OLD, OTHER}


@pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
def test_an_image_under_a_disk_stays_whatever_the_record_says(web):
    disk = web.host.pool / "instances" / web.uuid / "data.qcow2"
    below = ["-b", str(web.host.pool / "images" / OLD)]
    subprocess.run(["qemu-img", "create", "-q", "-u", "-f", "qcow2", "-F", "raw", *below, str(disk), "1M"], check=True)
    assert removed(web) == {OTHER}


def test_an_image_that_a_guest_in_libvirt_names_stays(web):
    below = "<backingStore type='file'><source file='%s'/></backingStore></disk>" % (web.host.pool / "images" / OTHER)
    web.domain.xml = web.domain.xml.replace("</disk>", below, 1)
    assert removed(web) == {OLD}


def test_a_disk_that_another_host_makes_meanwhile_keeps_its_image(web, monkeypatch):
    rename, owned = os.rename, "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"

    def rename_after_that(old, new):
        (web.host.pool / "instances" / owned).mkdir(exist_ok=True)
        rename(old, new)

    monkeypatch.setattr(unused_images.os, "rename", rename_after_that)
    assert removed(web) == set() and (web.host.pool / "images" / OLD).read_text() == "image"


@pytest.mark.parametrize("case", ["another host's", "set aside", "record lost"])
def test_a_pool_with_disks_that_this_host_has_no_record_of_keeps_all(web, case):
    pool, uuid = str(web.host.pool), "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
    if case == "set aside":
        (web.host.pool / "set-aside" / "copy").mkdir(parents=True)
    elif case == "another host's":
        owner.write(pool, web.uuid, uuid)
    else:
        shutil.rmtree(web.host.store.state_dir + "/instances/" + web.uuid)
    assert removed(web) == set()


def test_a_directory_of_images_in_a_pool_without_instances_is_somebody_elses(web, tmp_path):
    """As /var/lib/libvirt/images, where the pool is /var/lib/libvirt."""
    theirs = tmp_path / "libvirt"
    (theirs / "images").mkdir(parents=True)
    (theirs / "images" / OLD).write_text("theirs")
    web.host.pool_paths = lambda: [str(theirs)]
    assert unused_images.remove(web.host) == []
