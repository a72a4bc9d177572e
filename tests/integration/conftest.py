# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab that all integration tests share: three hosts of different sizes, prepared, empty before each test.

The lab is called ``test`` or what BERTH_TEST_LAB says; BERTH_TEST_KEEP=1 leaves it up for the next run. Run by several
workers (``-n``), each has a lab of its own.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "lab"))
sys.path.insert(0, str(Path(__file__).resolve().parent))  # helpers that several tests share

from client import REPOSITORY, LabClient  # noqa: E402
from host_side import HostSide  # noqa: E402
from warm import Warm  # noqa: E402
from whole import make_whole  # noqa: E402

# What each ./test.sh all runs whole; the rest is marked long, and takes turns.
ALWAYS = set("create delete faults host_facts migrate package resize security_host tutorial".split())
SIZES = ("1:cpus=8,mem=16384,cells=2,disk=20G", "2:cpus=4,mem=8192,disk=10G", "3:cpus=2,mem=4096,disk=6G")


def pytest_itemcollected(item):
    if item.path.stem.removeprefix("test_") not in ALWAYS:
        item.add_marker(pytest.mark.long("file"))  # its tests follow one another


def lab_name(worker):
    """The name of the lab of one of pytest's workers: master, gw0, gw1 ..."""
    return os.environ.get("BERTH_TEST_LAB", "test") + worker.replace("master", "").replace("gw", "-")


@pytest.fixture(scope="session")
def bare_lab(worker_id):
    """Three hosts as a new machine is: libvirt runs, berth has not been there."""
    lab = LabClient(lab_name(worker_id))
    lab.up(len(SIZES), *SIZES)
    lab.warm = Warm(lab.environment())
    yield lab
    lab.warm.end()
    if not os.environ.get("BERTH_TEST_KEEP"):
        lab.down()


@pytest.fixture(scope="session")
def prepared_lab(bare_lab):
    """The same after berth.kvm.prepare_hosts, with the catalog of examples/demo as an inventory."""
    bare_lab.extra_inventories = [REPOSITORY / "examples" / "demo" / "catalog.yml"]
    bare_lab.ansible_playbook("berth.kvm.prepare_hosts")
    return bare_lab


@pytest.fixture
def lab(prepared_lab):
    """The prepared lab, empty and whole; what the test leaves is removed before the next one."""
    make_whole(prepared_lab)
    return prepared_lab


@pytest.fixture(scope="session")
def code_on_host(prepared_lab):
    """The second host with the collection's code on it."""
    return HostSide(prepared_lab, prepared_lab.host(2))


@pytest.fixture(scope="session")
def image(bare_lab):
    """The guest image: {url (a path on every host), checksum, disk_format}, an entry for berth_images."""
    checksum = (REPOSITORY / ".cache" / "image" / "guest.qcow2.sha256").read_text().strip()
    return {"url": "/srv/shared/images/guest.qcow2", "checksum": "sha256:" + checksum, "disk_format": "qcow2"}


@pytest.fixture
def inventory(tmp_path):
    """inventory(instances, variables={}) writes an inventory file with these instance hosts -> its path.

    ``instances``: {name: {berth_flavor: ..., ...}}; ``variables``: for all hosts, such as berth_flavors.
    """

    def write(instances, variables=None, name="instances.yml"):
        path = tmp_path / name
        tree = {"all": {"vars": variables or {}, "children": {"instances": {"hosts": instances}}}}
        path.write_text(json.dumps(tree))  # JSON is YAML
        return path

    return write
