# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes prepared hosts on a fake libvirt, each with a store and a pool of its own, and what is requested of them."""

from __future__ import annotations

import fake_libvirt

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk, image
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk.virtual_size import QCOW2_MAGIC
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import gate, network
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.module_utils.model.host_settings import HostSettings
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid


def maker(top, monkeypatch):
    """make_host(name="kvm1", uuid=..., pool=None): a FakeHost below ``top``, on its own pool or on that of another one."""
    monkeypatch.setattr(connection, "libvirt", fake_libvirt.library())
    monkeypatch.setattr(connection, "libvirt_qemu", fake_libvirt.QemuPart)
    monkeypatch.setattr(gate, "running", dict)
    made = {"path": "/image", "format": "qcow2", "virtual_size": 1 << 20}
    monkeypatch.setattr(image, "ensure", lambda *_: made)

    check_start, real = network.check_start, network.SYS_NET

    def check_networks(*given):
        """A host has all networks, unless the test says in SYS_NET which bridges there are."""
        if network.SYS_NET != real:
            check_start(*given)

    monkeypatch.setattr(network, "check_start", check_networks)

    def make(planned, path, _base):
        with open(path, "wb") as stream:
            stream.write(QCOW2_MAGIC if planned.format == "qcow2" else b"")
            stream.write(b"fresh %s\n" % planned.name.encode())

    monkeypatch.setattr(disk, "make", make)
    return lambda name="kvm1", uuid=fake_libvirt.HOST_UUID, pool=None: _host(top / name, name, uuid, pool)


def _host(top, name, uuid, pool):
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


def request(name="web1", **flavor):
    """(spec, seed) of an instance of project default."""
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
