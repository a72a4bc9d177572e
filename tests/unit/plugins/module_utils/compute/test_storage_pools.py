# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools tell what is free now; one that cannot be read does not hold up the others."""

from __future__ import annotations

import os
import threading

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import storage_pools

libvirt = pytest.importorskip("libvirt")


class Pool:
    """A pool of libvirt's; ``free`` is what info() gives only after a refresh."""

    def __init__(self, name, kind="dir", path="/", stale=10, free=1, hangs=False):
        self._name, self.kind, self.path, self.stale, self.free, self.hangs = name, kind, path, stale, free, hangs

    def name(self):
        return self._name

    def XMLDesc(self, _flags):
        return "<pool type='%s'><name>x</name><target><path>%s</path></target></pool>" % (self.kind, self.path)

    def refresh(self, _flags):
        if self.hangs:
            threading.Event().wait(30)
        self.stale = self.free

    def info(self):
        return [2, 100, 0, self.stale]


class Libvirt:
    def __init__(self, *pools):
        self.pools = pools

    def listAllStoragePools(self, _flags):
        return self.pools


def read(*pools, seconds=10):
    warnings = []
    return storage_pools.read_pools(Libvirt(*pools), connection.Deadline(seconds), warnings), warnings


@pytest.mark.parametrize("kind", ["dir", "fs", "netfs"])
def test_a_directory_tells_what_the_file_system_has_now(tmp_path, kind):
    """Hazard: pool.info() showed 10.5 GB free on a full disk."""
    sizes = os.statvfs(tmp_path)
    found, warnings = read(Pool("a", kind, path=tmp_path))
    assert found["a"]["type"] == kind
    assert found["a"]["capacity"] == sizes.f_blocks * sizes.f_frsize
    assert abs(found["a"]["free"] - sizes.f_bavail * sizes.f_frsize) < 1 << 30
    assert found["a"]["device"] == os.stat(tmp_path).st_dev
    assert warnings == []


def test_any_other_pool_is_refreshed_before_it_is_asked():
    assert read(Pool("vg", "logical"))[0]["vg"]["free"] == 1


def test_a_pool_that_hangs_is_named_and_left_out(tmp_path):
    found, warnings = read(Pool("a", path=tmp_path), Pool("vg", "logical", hangs=True), seconds=0.3)
    assert list(found) == ["a"]
    assert warnings == ["storage pool vg is left out: reading storage pool vg did not end in time"]


def test_a_directory_that_is_gone_is_named_and_left_out(tmp_path):
    found, warnings = read(Pool("a", path=tmp_path / "gone"))
    assert found == {}
    assert "storage pool a is left out" in warnings[0]


def test_allocated_is_the_sum_of_one_directory(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 8192)
    assert storage_pools.allocated_below(tmp_path) >= 8192
    assert storage_pools.allocated_below(tmp_path / "gone") == 0


def test_cached_images_count_with_what_they_take_and_not_with_their_length(tmp_path):
    assert storage_pools._read(Pool("p", path=tmp_path))["images"] == 0
    (tmp_path / "images").mkdir()
    with open(tmp_path / "images" / "sparse", "wb") as file:
        file.write(b"x" * (1 << 20))
        file.truncate(1 << 30)
    assert 1 << 20 <= storage_pools._read(Pool("p", path=tmp_path))["images"] < 1 << 22
