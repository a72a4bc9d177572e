# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One prepared host on a fake libvirt: its disks are small files, and its power can be cut."""

from __future__ import annotations

import fake_libvirt
import pytest
from instance_case import Case
from volume_case import make_house

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk, image
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import gate
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import boot_time
from ansible_collections.berth.kvm.plugins.module_utils.compute.host.settings import HostSettings
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid


@pytest.fixture
def boot(monkeypatch):
    """The boot id of all hosts of the test: boot("two") is the next boot."""
    now = ["one"]
    monkeypatch.setattr(boot_time, "boot_id", lambda: now[0])
    return lambda name: now.__setitem__(0, name)


@pytest.fixture
def make_host(tmp_path, monkeypatch, boot):
    """make_host(name="kvm1", uuid=..., pool=None): a FakeHost of its own, on its own pool or on that of another one."""
    monkeypatch.setattr(connection, "libvirt", fake_libvirt.library())
    monkeypatch.setattr(connection, "libvirt_qemu", fake_libvirt.QemuPart)
    monkeypatch.setattr(gate, "daemons", lambda: [])
    made = {"path": "/image", "format": "qcow2", "virtual_size": 1 << 20}
    monkeypatch.setattr(image, "ensure", lambda *_: made)

    def make(planned, path, _base):
        with open(path, "w", encoding="ascii") as stream:
            stream.write("fresh %s\n" % planned.name)

    monkeypatch.setattr(disk, "make", make)

    def build(name="kvm1", uuid=fake_libvirt.HOST_UUID, pool=None):
        top = tmp_path / name
        top.mkdir()
        pool = pool or top / "pool"
        pool.mkdir(mode=0o711, exist_ok=True)
        run_dir, hook = str(top / "run"), str(top / "hooks" / "qemu.d" / "berth")
        gate.install(hook, run_dir)
        libvirt = fake_libvirt.FakeConnection(run_dir, str(pool))
        libvirt.getHostname = lambda: name
        host = fake_libvirt.FakeHost(
            store=Store(str(top / "berth"), action="test"),
            settings=HostSettings(uuid=uuid, prepared=True),
            connect=lambda: libvirt,
            run_dir=run_dir,
            hook=hook,
        )
        host.uuid, host.pool = uuid, pool
        return host

    return build


@pytest.fixture
def prepared(make_host):
    """The one host of most tests."""
    return make_host()


@pytest.fixture
def wanted():
    """wanted(name): (spec, seed) of an instance of project default."""

    def request(name="web1", **flavor):
        sizes = {"name": "tiny", "vcpus": 1, "memory_mb": 64, "root_gb": 1, "ephemeral_gb": 0, "swap": 0}
        spec = {
            "schema": 1,
            "uuid": instance_uuid("default", name),
            "name": name,
            "project_id": "default",
            "flavor": {**sizes, "extra_specs": {}, **flavor},
            "image": {"name": "guest", "checksum": "sha256:" + "0" * 64, "properties": {}},
            "networks": [],
        }
        return spec, {"hostname": name}

    return request


@pytest.fixture
def state(tmp_path):
    """The path of a state directory."""
    return str(tmp_path / "berth")


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
