# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small catalog, an instance and hosts with facts, for tests of the placement action."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from controller import Controller

HOST = json.loads((Path(__file__).parent / "host.json").read_text())
CATALOG = {
    "berth_flavors": {
        "tiny": {"vcpus": 1, "memory_mb": 128, "root_gb": 1},
        "huge": {"vcpus": 64, "memory_mb": 128, "root_gb": 1},
    },
    "berth_images": {
        "guest": {"url": "/images/guest.qcow2", "checksum": "sha256:" + "0" * 64, "disk_format": "qcow2"},
        "fat": {"url": "/images/fat.qcow2", "checksum": "sha256:" + "1" * 64, "disk_format": "qcow2", "min_disk": 9},
    },
    "berth_networks_defined": {"lan": {"type": "bridge", "source": "br0", "cidr": "192.0.2.0/24"}},
    "berth_server_groups": {"pair": {"policy": "anti-affinity"}},
}
VM = {"berth_flavor": "tiny", "berth_image": "guest"}


def facts(name, **changes):
    return {"berth_host": {**HOST, "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)), **changes}}


def controller(instances, variables=None, hosts=("h1", "h2"), more_facts=None, silent=()):
    groups = {"kvm_hosts": [*hosts, *silent], "instances": list(instances)}
    known = {name: facts(name) for name in hosts}
    known.update(more_facts or {})
    return Controller(groups, {"all": {**CATALOG, **(variables or {})}, **instances}, known)


def place(instances, variables=None, args=None, **more):
    return controller(instances, variables, **more).run("placement", {"instances": list(instances), **(args or {})})
