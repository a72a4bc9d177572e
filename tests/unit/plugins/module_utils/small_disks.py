# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small disks made and read by the host's own qemu-img and qemu-io."""

from __future__ import annotations

import subprocess

from backup_case import make_disk, qemu
from instance_case import Case

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import facts


def web_off(host, request, monkeypatch):
    """web1, off, with a root disk of 16 MiB in a flavor of 1 GiB and a data disk."""
    monkeypatch.setattr(disk, "make", make_disk)
    spec, seed = request
    spec["disks"] = [{"name": "db", "size_gb": 1, "bus": "virtio"}]
    case = Case(host, (spec, seed))
    case.make()
    case.instance().stopped(0.01)
    return case


def make_by_qemu(host, monkeypatch, local_gb):
    """Disks have their sizes, and the host has so many GiB."""

    def make(one, path, _base):
        form = one.format if one.format == "qcow2" else "raw"
        subprocess.run(["qemu-img", "create", "-q", "-f", form, "--", path, "%d" % (one.size or 1 << 20)], check=True)

    def collect(_connection, _settings, records, *_args, volumes=(), **_kwargs):
        used = sum(record.resources.get("disk_gb", 0) for record in [*records, *volumes])
        return {"host": "kvm1", "uuid": host.uuid, "vcpus": 40, "memory_mb": 4096, "local_gb": local_gb, "local_gb_used": used,
                "instances": [], "num_instances": 0, "pool": "berth", "pools": {"berth": {"type": "dir"}}}  # fmt: skip

    monkeypatch.setattr(disk, "make", make)
    monkeypatch.setattr(facts, "collect", collect)


def write(case, byte, at=0, name="root.qcow2"):
    qemu("qemu-io", "-f", "qcow2", "-c", "write -P %d %d 64k" % (byte, at), case.root.parent / name)


def holds(path, byte, at=0):
    said = subprocess.run(
        ["qemu-io", "-r", "-f", "qcow2", "-c", "read -P %d %d 64k" % (byte, at), path], capture_output=True, check=False
    )
    return said.returncode == 0 and b"Pattern verification failed" not in said.stdout
