# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance with data disks in a pool, as files of qemu-img."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import seed
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
OP = "ab" * 16
CHECKSUM = "sha256:" + "1" * 64
MIB, GIB = 1 << 20, 1 << 30
SMALL = {"name": "small", "vcpus": 1, "memory_mb": 128, "root_gb": 1}
LARGE = {"name": "large", "vcpus": 1, "memory_mb": 128, "root_gb": 2, "ephemeral_gb": 1, "swap": 1}
LOGS, DB = {"name": "logs", "size_gb": 3, "bus": "virtio"}, {"name": "send", "size_gb": 1, "bus": "scsi"}
needs_qemu_img = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")


def spec(flavor=None, data=(LOGS, DB)):
    return {
        "flavor": flavor or SMALL,
        "disks": list(data),
        "image": {"name": "guest", "checksum": CHECKSUM, "properties": {}},
    }


def record(role="OWN", moved=True, **changes):
    migration = {"attempt": 1, "type": "resize", "shared": True, "old_spec": spec(), "new_spec": spec(LARGE)}
    parts = dict(
        uuid=UUID, name="vm", project_id="default", role=role, generation=[1, 1], token="t", phase="active",
        vm_state="active", spec=spec(LARGE if role == "IN" else SMALL), resources={},
        op=OP if moved else None, migration=migration if moved else None,
    )  # fmt: skip
    return Record(**{**parts, **changes})


def make_files(tmp_path):
    """The instance's disks in a pool, with something written on the first data disk."""
    directory = tmp_path / "instances" / UUID
    directory.mkdir(parents=True, mode=0o711)
    image = Path(paths.image(str(tmp_path), CHECKSUM))
    image.parent.mkdir()
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "--", image, "64M"], check=True)
    for planned in disk.plan(spec()):
        disk.make(
            planned, str(directory / planned.file), {"format": "qcow2", "path": str(image), "virtual_size": 64 * MIB}
        )
    (directory / seed.FILE).write_bytes(b"seed" * 512)
    write(directory / "data-logs.qcow2", "0x42")
    return directory


def write(path, pattern):
    subprocess.run(
        ["qemu-io", "-f", "qcow2", "-c", "write -P %s 0 64k" % pattern, path], check=True, capture_output=True
    )


def holds(path, pattern):
    done = subprocess.run(
        ["qemu-io", "-f", "qcow2", "-c", "read -P %s 0 64k" % pattern, path],
        check=False,
        capture_output=True,
        text=True,
    )
    return done.returncode == 0 and "verification failed" not in done.stdout


def pool(files):
    return str(files.parent.parent)


def info(path):
    text = subprocess.run(
        ["qemu-img", "info", "-f", "qcow2", "--output=json", "--", path], capture_output=True, check=True
    )
    return json.loads(text.stdout)
