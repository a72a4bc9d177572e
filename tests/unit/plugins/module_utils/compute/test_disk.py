# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks of an instance (A21): formats always named, sizes the flavor's, files for their owner only."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from ansible_collections.berth.kvm.plugins.module_utils import compute
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DisksOfAnotherHost, StateUnsafe
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.host_settings import HostSettings

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
HOST = "11111111-3c6e-5d59-9d0b-3a1c9d7f1e2a"
MIB = 1 << 20
GIB = 1 << 30
needs_qemu_img = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")


def spec(image=None, **flavor):
    return {
        "flavor": {"name": "m1", "vcpus": 1, "memory_mb": 64, "root_gb": 1, "ephemeral_gb": 0, "swap": 0, **flavor},
        "image": image,
    }


@pytest.mark.parametrize(
    "flavor, expected",
    [
        ({}, [("root", "root.qcow2", "qcow2", GIB)]),
        ({"root_gb": 0}, [("root", "root.qcow2", "qcow2", None)]),
        ({"extra_specs": {"berth:root_disk": "raw"}}, [("root", "root.raw", "raw", GIB)]),
        (
            {"ephemeral_gb": 2, "swap": 64},
            [
                ("root", "root.qcow2", "qcow2", GIB),
                ("ephemeral0", "ephemeral0", "raw", 2 * GIB),
                ("swap", "swap", "raw", 64 * MIB),
            ],
        ),
    ],
    ids=["root", "root of the image's size", "raw", "ephemeral and swap"],
)
def test_the_disks_follow_from_the_request(flavor, expected):
    assert [planned[:4] for planned in disk.plan(spec(**flavor))] == expected


def test_an_unknown_kind_of_root_disk_is_refused():
    with pytest.raises(InvalidInput, match="berth:root_disk"):
        disk.plan(spec(extra_specs={"berth:root_disk": "fast"}))


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "guest.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "--", str(path), "64M"], check=True)
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"name": "guest", "url": str(path), "checksum": "sha256:" + checksum, "disk_format": "qcow2"}


def allowed(tmp_path):
    """Settings of a host that takes images from the test's directory."""
    return HostSettings(image_directories=(str(tmp_path),))


@pytest.fixture
def pool(tmp_path):
    path = tmp_path / "pool"
    path.mkdir(mode=0o711)
    return str(path)


def info(path, form):
    text = subprocess.run(
        ["qemu-img", "info", "-U", "-f", form, "--output=json", "--", path], capture_output=True, check=True
    ).stdout
    return json.loads(text)


@needs_qemu_img
@pytest.mark.parametrize("kind, form", [("overlay", "qcow2"), ("full", "qcow2"), ("raw", "raw")])
@pytest.mark.parametrize("root_gb, size", [(1, GIB), (0, 64 * MIB)])
def test_the_root_disk_has_the_flavors_size(pool, image, kind, form, root_gb, size, tmp_path):
    disk.build(
        pool,
        UUID,
        spec(image, root_gb=root_gb, extra_specs={"berth:root_disk": kind}),
        HOST,
        allowed(tmp_path),
    )
    found = info(os.path.join(pool, "instances", UUID, "root." + form), form)
    assert found["virtual-size"] == size
    assert ("backing-filename" in found) == (kind == "overlay")


@needs_qemu_img
def test_every_disk_is_for_its_owner_only(pool, image, tmp_path):
    before = os.umask(0)
    try:
        disk.build(pool, UUID, spec(image, ephemeral_gb=1, swap=1), HOST, allowed(tmp_path))
    finally:
        os.umask(before)
    directory = Path(pool, "instances", UUID)
    assert sorted(path.name for path in directory.iterdir()) == ["ephemeral0", "owner", "root.qcow2", "swap"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o711


@needs_qemu_img
@pytest.mark.parametrize("name, label", [("ephemeral0", "ephemeral0"), ("swap", "swap")])
def test_further_disks_are_labelled(pool, image, name, label, tmp_path):
    disk.build(pool, UUID, spec(image, ephemeral_gb=1, swap=64), HOST, allowed(tmp_path))
    path = os.path.join(pool, "instances", UUID, name)
    found = subprocess.run(
        ["blkid", "-p", "-s", "LABEL", "-o", "value", path], capture_output=True, text=True, check=True
    ).stdout
    assert found.strip() == label


@needs_qemu_img
def test_a_build_again_starts_from_a_fresh_disk(pool, image, tmp_path):
    raw = spec(image, root_gb=0, extra_specs={"berth:root_disk": "raw"})
    disk.build(pool, UUID, raw, HOST, allowed(tmp_path))
    path = os.path.join(pool, "instances", UUID, "root.raw")
    with open(path, "r+b") as stream:
        stream.write(b"somebody's data")
    disk.build(pool, UUID, raw, HOST, allowed(tmp_path))
    with open(path, "rb") as stream:
        assert stream.read(15) == b"\0" * 15


@needs_qemu_img
def test_a_link_in_place_of_the_directory_is_refused(pool, image, tmp_path):
    os.makedirs(os.path.join(pool, "instances"))
    os.symlink(str(tmp_path), os.path.join(pool, "instances", UUID))
    with pytest.raises(StateUnsafe):
        disk.build(pool, UUID, spec(image), HOST, allowed(tmp_path))
    with pytest.raises(StateUnsafe):
        disk.remove_all(pool, UUID, "web1", HOST)


@needs_qemu_img
def test_removing_the_disks_leaves_no_directory_and_follows_no_link(pool, image, tmp_path):
    disk.build(pool, UUID, spec(image), HOST, allowed(tmp_path))
    os.symlink(image["url"], os.path.join(pool, "instances", UUID, "extra"))
    assert disk.remove_all(pool, UUID, "web1", HOST) is True
    assert os.listdir(os.path.join(pool, "instances")) == []
    assert os.path.exists(image["url"])
    assert disk.remove_all(pool, UUID, "web1", HOST) is False


@needs_qemu_img
def test_disks_of_another_host_are_neither_removed_nor_made_anew(pool, image, tmp_path):
    """I3: a pool may be one storage for several hosts, and an instance without a record here no orphan."""
    disk.build(
        pool,
        UUID,
        spec(image),
        "22222222-3c6e-5d59-9d0b-3a1c9d7f1e2a",
        allowed(tmp_path),
    )
    with pytest.raises(DisksOfAnotherHost, match="22222222-"):
        disk.remove_all(pool, UUID, "web1", HOST)
    assert sorted(os.listdir(os.path.join(pool, "instances", UUID))) == ["owner", "root.qcow2"]


def test_no_call_of_qemu_img_lacks_a_format_or_the_end_of_options():
    """CVE-2014-0134: a guest writes a header on its raw disk, and a tool that guesses follows it."""
    functions = []
    for path in Path(list(compute.__path__)[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = ast.unparse(node) if isinstance(node, ast.FunctionDef) else ""
            # one that is given its source is not meant, but whoever makes the source
            if ("['qemu-img'" in text and "*source" not in text) or "['-f'" in text or "['--image-opts'" in text:
                functions.append(text)
    assert functions
    for text in functions:
        assert "'-f'" in text or "'--image-opts'" in text, text
        assert "'--'" in text, text
        assert "'-b'" not in text or "'-F'" in text, text
