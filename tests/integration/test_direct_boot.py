# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest boots from a kernel beside an empty disk, and again on another host where nothing serves the kernel any more."""

from __future__ import annotations

import hashlib

import pytest

from playbooks import catalog, homes, vm

DIRECTORY = "/srv/shared/images/direct"
# The kernel and initrd of the lab's image, out of its FAT partition at 1 MiB.
EXTRACT = """
set -e; mkdir -p {0}; cd {0}
qemu-img convert -O raw /srv/shared/images/guest.qcow2 whole
mcopy -n -i whole@@1048576 ::vmlinuz ::initrd.gz .
rm whole; sha256sum vmlinuz initrd.gz
""".format(DIRECTORY)


@pytest.mark.slow
def test_a_guest_boots_from_the_kernel_of_its_image_also_after_a_move(lab, inventory, tmp_path):
    """Its disk comes from the controller."""
    empty = tmp_path / "empty disk.img"
    empty.write_bytes(bytes(1 << 20))
    host = lab.hosts[0]
    sums = {
        name: "sha256:" + digest
        for digest, name in (line.split() for line in lab.sh(host, EXTRACT).stdout.splitlines())
    }
    source = {name: {"url": "%s/%s" % (DIRECTORY, name), "checksum": digest} for name, digest in sums.items()}
    image = {
        "upload": str(empty), "checksum": "sha256:" + hashlib.sha256(empty.read_bytes()).hexdigest(),
        "disk_format": "raw", "kernel": source["vmlinuz"], "initrd": source["initrd.gz"],
        "properties": {"os_command_line": "console=ttyS0 panic=-1 quiet no_timer_check mitigations=off"},
    }  # fmt: skip
    path = inventory({"web": vm()}, catalog(image))
    lab.ansible_playbook("berth.kvm.create", inventory=[path])
    first = homes(lab)["web"]
    assert lab.guest_facts("web", timeout=120)["host"] == "web"
    lab.sh(host, "rm -r %s" % DIRECTORY)
    lab.ansible_playbook("berth.kvm.cold_migrate", inventory=[path], extra_vars={"berth_name": "web"})
    second = homes(lab)["web"]
    assert second != first
    assert lab.guest_facts("web", host=second, timeout=120)["host"] == "web"
