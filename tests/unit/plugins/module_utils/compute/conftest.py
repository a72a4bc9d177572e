# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One prepared host on a fake libvirt: its disks are small files, and its power can be cut."""

from __future__ import annotations

import data_disk_case
import kernel_case
import prepared_host
import pytest
from instance_case import Case
from volume_case import make_house

from ansible_collections.berth.kvm.plugins.module_utils.compute.host import boot_time
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store


@pytest.fixture
def boot(monkeypatch):
    """The boot id of all hosts of the test: boot("two") is the next boot."""
    now = ["one"]
    monkeypatch.setattr(boot_time, "boot_id", lambda: now[0])
    return lambda name: now.__setitem__(0, name)


@pytest.fixture
def make_host(tmp_path, monkeypatch, boot):
    """make_host(name="kvm1", uuid=..., pool=None): a FakeHost of its own, on its own pool or on that of another one."""
    return prepared_host.maker(tmp_path, monkeypatch)


@pytest.fixture
def prepared(make_host):
    """The one host of most tests."""
    return make_host()


@pytest.fixture
def wanted():
    """wanted(name): (spec, seed) of an instance of project default."""

    return prepared_host.request


@pytest.fixture
def state(tmp_path):
    """The path of a state directory."""
    return str(tmp_path / "berth")


@pytest.fixture
def pool(tmp_path):
    """The directory of a storage pool."""
    path = tmp_path / "pool"
    path.mkdir(mode=0o711)
    return str(path)


@pytest.fixture
def store(state):
    """The records in it."""
    return Store(state)


@pytest.fixture
def web(prepared, wanted):
    """The instance web1 of that host: nothing was done with it yet."""
    return Case(prepared, wanted("web1"))


@pytest.fixture
def house(prepared, wanted, monkeypatch):
    """That host with room for volumes."""
    return make_house(prepared, wanted, monkeypatch)


@pytest.fixture
def files(tmp_path):
    """The directory of an instance with data disks, see data_disk_case.py."""
    return data_disk_case.make_files(tmp_path)


@pytest.fixture
def kernel(monkeypatch, tmp_path):
    """What the kernel of the host has for packets, see kernel_case.py."""
    return kernel_case.kernel(monkeypatch, tmp_path)
