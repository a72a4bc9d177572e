# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian on a lab of two hosts. Slow, so no part of ./test.sh: `make realguest`.

BERTH_TEST_LAB and BERTH_TEST_KEEP as for tests/integration.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
for place in ("lab", "tests/integration", "tests/realguest"):
    sys.path.insert(0, str(ROOT / place))

import image  # noqa: E402
from client import LabClient, run  # noqa: E402
from guest import Guest  # noqa: E402
from whole import make_whole  # noqa: E402

# A second network that ends at its host: what is on it is seen from inside the guest only.
SECOND_BRIDGE = "ip link show br9 >/dev/null 2>&1 || ip link add br9 type bridge; ip link set br9 up"
INNER = "192.0.2.0/24"
FLAVORS = {
    "debian": {"vcpus": 1, "memory_mb": 768, "root_gb": 4, "ephemeral_gb": 1, "swap": 256},
    "larger": {"vcpus": 2, "memory_mb": 1024, "root_gb": 6, "ephemeral_gb": 2, "swap": 512},
}
LARGER = {"flavor": "larger"}  # the variable by which an instance takes the other one
USER_DATA = """#cloud-config
write_files:
- {path: /etc/written-by-user-data, content: "as the user wished"}
runcmd:
- cat /proc/sys/kernel/random/boot_id >> /var/log/first-boots
"""


@pytest.fixture(scope="session")
def debian():
    """The images, made where they are not there yet -> {loader: path}."""
    image.make()
    return {loader: image.DIRECTORY / ("debian12-%s.qcow2" % loader) for loader in image.LOADERS}


@pytest.fixture(scope="session")
def lab(debian):
    lab = LabClient(os.environ.get("BERTH_TEST_LAB", "realguest"))
    lab.up(2, "cpus=4,mem=8192,disk=20G")
    for path in debian.values():
        shutil.copy(path, lab.state / "shared" / "images")
    for host in lab.hosts:
        lab.sh(host, SECOND_BRIDGE)
    lab.extra_inventories = [ROOT / "examples" / "demo" / "catalog.yml"]
    lab.ansible_playbook("berth.kvm.prepare_hosts", timeout=900)
    make_whole(lab)
    yield lab
    if not os.environ.get("BERTH_TEST_KEEP"):
        lab.down()


@pytest.fixture(scope="session")
def key(tmp_path_factory):
    """A key pair -> the path of the private one, the text of the public one."""
    path = tmp_path_factory.mktemp("key") / "id_ed25519"
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "tester", "-f", path], check=True)
    return path, path.with_suffix(".pub").read_text().strip()


@pytest.fixture(scope="session")
def make_guest(lab, key, tmp_path_factory):
    """make_guest(name, last part of the address, loader, instance, properties) -> Guest, not created yet.

    ``instance``: variables of its own.
    """
    prefix = run(["sed", "-n", "s/.*lab_guest_prefix: \\([0-9.]*\\).*/\\1/p", lab.inventory], check=True).stdout.strip()

    def make(name, number=220, loader="signed", instance=None, **properties):
        file = "debian12-%s.qcow2" % loader
        checksum = (image.DIRECTORY / (file + ".sha256")).read_text().strip()
        lan = {
            "type": "bridge",
            "source": "br0",
            "cidr": prefix + ".0/24",
            "gateway": prefix + ".1",
            "nameservers": [prefix + ".1"],
        }
        source = {"url": "/srv/shared/images/" + file, "checksum": "sha256:" + checksum, "disk_format": "qcow2"}
        variables = {
            "berth_flavors": FLAVORS,
            "berth_images": {"debian": {**source, "properties": properties}},
            "berth_networks_defined": {"lan": lan, "inner": {"type": "bridge", "source": "br9", "cidr": INNER}},
            "berth_volumes_defined": {"os": {"size_gb": 4}, "more": {"size_gb": 1}},
            "berth_security_groups_defined": {
                "ssh": {"rules": [{"protocol": "tcp", "ports": 22, "remote": lan["cidr"]}]}
            },
        }
        address = "%s.%d" % (prefix, number)
        variables_of_its_own = {
            "berth_flavor": "{{ flavor | default('debian') }}",
            "berth_image": "debian",
            "berth_networks": [{"network": "lan", "address": address}, {"network": "inner", "address": "192.0.2.7"}],
            "berth_ssh_keys": [key[1]],
            "berth_user_data": USER_DATA,
            **(instance or {}),
        }
        return Guest(lab, tmp_path_factory.mktemp(name), name, address, key[0], variables_of_its_own, variables)

    return make
