# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images are judged by their own bytes before any other program opens them (security.md, first row; CVE-2024-32498)."""

from __future__ import annotations

import os
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import image_check
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import ImageInvalid
from ansible_collections.berth.kvm.plugins.module_utils.model import disk_hints

GIB = 1 << 30
CLUSTER_BITS = 16
CLUSTER = 1 << CLUSTER_BITS


def qcow2(version=3, backing=0, backing_length=0, cluster_bits=CLUSTER_BITS, size=GIB, encryption=0, l1_size=2,
          l1=3 * CLUSTER,
          refcount=CLUSTER, incompatible=0, header_length=104, extensions=b"\0" * 8, length=4 * CLUSTER,
          snapshots=0, snapshots_at=0):  # fmt: skip
    head = struct.pack(
        ">4sIQIIQIIQQIIQ",
        b"QFI\xfb",
        version,
        backing,
        backing_length,
        cluster_bits,
        size,
        encryption,
        l1_size,
        l1,
        refcount,
        1,
        snapshots,
        snapshots_at,
    )
    if version == 3:
        head += struct.pack(">QQQII", incompatible, 0, 0, 4, header_length)
    return (head + extensions).ljust(length, b"\0")[:length]


def extension(kind, data):
    return struct.pack(">II", kind, len(data)) + data.ljust(-(-len(data) // 8) * 8, b"\0") + b"\0" * 8


def judge(tmp_path, content, declared):
    path = tmp_path / "image"
    path.write_bytes(content)
    fd = os.open(str(path), os.O_RDONLY)
    try:
        return image_check.inspect(fd, declared)
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    "content, declared, size",
    [
        (qcow2(), "qcow2", GIB),
        (qcow2(version=2, extensions=b"\0" * 8), "qcow2", GIB),
        (qcow2(incompatible=1 << 3), "qcow2", GIB),
        (qcow2(extensions=extension(0x6803F857, b"feature names")), "qcow2", GIB),
        (b"\x55\xaa" * 2048, "raw", 4096),
        (b"\0" * 513, "raw", 1024),
    ],
    ids=["qcow2 v3", "qcow2 v2", "compressed with zstd", "feature names", "raw", "raw is counted in sectors"],
)
def test_a_good_image_has_its_virtual_size(tmp_path, content, declared, size):
    assert judge(tmp_path, content, declared) == {"format": declared, "virtual_size": size}


BAD_QCOW2 = {
    "absolute backing file": (
        qcow2(backing=112, backing_length=11, extensions=b"\0" * 8 + b"/etc/shadow"),
        "backing file",
    ),
    "backing offset without a length": (qcow2(backing=112), "backing file"),
    "backing length without an offset": (qcow2(backing_length=11), "backing file"),
    "nbd backing": (qcow2(backing=112, backing_length=16, extensions=b"\0" * 8 + b"nbd://192.0.2.1/x"), "backing file"),
    "json backing": (
        qcow2(backing=112, backing_length=30, extensions=b"\0" * 8 + b'json:{"driver":"file"}'),
        "backing file",
    ),
    "external data file": (qcow2(incompatible=1 << 2), "external data file"),
    "data file by extension only": (qcow2(extensions=extension(0x44415441, b"/etc/shadow")), "external data file"),
    "AES": (qcow2(encryption=1), "encrypted"),
    "LUKS": (qcow2(encryption=2), "encrypted"),
    "LUKS by extension only": (qcow2(extensions=extension(0x0537BE77, b"\0" * 16)), "encrypted"),
    "unknown incompatible feature": (qcow2(incompatible=1 << 63), "unknown incompatible"),
    "dirty": (qcow2(incompatible=1), "dirty"),
    "corrupt": (qcow2(incompatible=2), "corrupt"),
    "version 4": (qcow2(version=4), "unknown version"),
    "cut inside the header": (qcow2()[:60], "cut off"),
    "cut after the first part": (qcow2()[:80], "outside of the file"),
    "L1 table after the end": (qcow2(l1=400 * CLUSTER), "L1 table"),
    "L1 table in the header": (qcow2(l1=0), "L1 table"),
    "refcount table after the end": (qcow2(refcount=400 * CLUSTER), "refcount table"),
    "60 TiB that the L1 table does not hold": (qcow2(size=60 << 40), "does not reach"),
    "no size": (qcow2(size=0), "virtual size"),
    "clusters of 2^60": (qcow2(cluster_bits=60), "clusters"),
    "header longer than the file": (qcow2(header_length=1 << 31), "header of"),
    "snapshots without end": (qcow2(snapshots=65536, snapshots_at=CLUSTER), "65536 internal snapshots"),
    "snapshots outside of the file": (qcow2(snapshots=1, snapshots_at=GIB), "internal snapshots"),
    "extension that never ends": (qcow2(extensions=struct.pack(">II", 0x12345678, 0xFFFFFFF0)), "without an end"),
}


@pytest.mark.parametrize("content, message", BAD_QCOW2.values(), ids=list(BAD_QCOW2))
def test_a_bad_qcow2_is_refused_and_no_host_is_asked_again(tmp_path, content, message):
    with pytest.raises(ImageInvalid, match=message) as caught:
        judge(tmp_path, content, "qcow2")
    assert not caught.value.retryable


DISGUISED = {
    "qcow2": qcow2(),
    "vmdk sparse": b"KDMV" + b"\0" * 1020,
    "vmdk flat descriptor": b'# Disk DescriptorFile\nversion=1\nRW 2048 FLAT "/etc/shadow" 0\n',
    "vdi": b"<<< image >>>\n".ljust(64, b"\0") + b"\x7f\x10\xda\xbe" + b"\0" * 500,
    "vhdx": b"vhdxfile" + b"\0" * 1016,
    "vhd by its footer": b"\0" * 1024 + b"conectix".ljust(512, b"\0"),
    "qed": b"QED\0" + b"\0" * 1020,
    "luks": b"LUKS\xba\xbe" + b"\0" * 1018,
    "dmg": b"\0" * 1024 + b"koly".ljust(512, b"\0"),
}


@pytest.mark.parametrize("content", DISGUISED.values(), ids=list(DISGUISED))
def test_a_raw_image_with_another_formats_header_is_refused(tmp_path, content):
    with pytest.raises(ImageInvalid, match="declared as raw"):
        judge(tmp_path, content, "raw")


@pytest.mark.follows("right_format")
def test_an_image_of_the_other_format_says_which_to_declare_and_is_taken_then(tmp_path):
    for content, declared, right in ((qcow2(), "raw", "qcow2"), (b"<html>".ljust(512), "qcow2", "raw")):
        with pytest.raises(ImageInvalid) as refused:
            judge(tmp_path, content, declared)
        assert refused.value.hint == disk_hints.right_format(right)
        assert judge(tmp_path, content, right)["format"] == right


def test_a_polyglot_is_refused(tmp_path):
    with pytest.raises(ImageInvalid, match="qcow and vhd footer"):
        judge(tmp_path, qcow2()[:-512] + b"conectix".ljust(512, b"\0"), "qcow2")


@pytest.mark.parametrize("content", [b"", b"QF", b"\0" * 100], ids=["empty", "two bytes", "zeros"])
def test_what_is_no_qcow2_is_refused_as_one(tmp_path, content):
    with pytest.raises(ImageInvalid):
        judge(tmp_path, content, "qcow2")


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400), st.sampled_from(["raw", "qcow2"]))
def test_no_bytes_make_the_check_itself_fail(tmp_path_factory, data, declared):
    content = b"QFI\xfb\0\0\0\x03" + data if declared == "qcow2" else data
    try:
        found = judge(tmp_path_factory.mktemp("image"), content, declared)
    except ImageInvalid:
        return
    assert found["virtual_size"] > 0


def test_what_qemu_img_makes_is_accepted(tmp_path):
    qemu_img = "/usr/bin/qemu-img"
    if not os.path.exists(qemu_img):
        pytest.skip("no qemu-img here")
    path = tmp_path / "made.qcow2"
    assert os.spawnl(os.P_WAIT, qemu_img, qemu_img, "create", "-q", "-f", "qcow2", "--", str(path), "64M") == 0
    assert judge(tmp_path, path.read_bytes(), "qcow2")["virtual_size"] == 64 << 20


CD = bytes(0x8001) + b"CD001" + bytes(4096)


def test_an_iso_is_taken_as_one_also_where_it_is_no_disk_to_boot_from(tmp_path):
    size = -(-len(CD) // 512) * 512
    assert judge(tmp_path, CD, "iso") == {"format": "raw", "virtual_size": size}
    with pytest.raises(ImageInvalid, match="not a disk: its content is ISO 9660"):
        judge(tmp_path, CD, "raw")


@pytest.mark.parametrize("content", [bytes(1 << 20), qcow2(), b"KDMV" + CD[4:]], ids=["raw", "qcow2", "vmdk"])
def test_what_is_no_iso_is_not_taken_as_one(tmp_path, content):
    with pytest.raises(ImageInvalid, match="declared as iso"):
        judge(tmp_path, content, "iso")
