# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a fleet of hosts that answer from recorded files, so that what a playbook costs is the controller's own part.

Each host is a name for this machine whose Python is simulated_host.c. Its state is that of a host of the lab, made larger.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from pathlib import Path

from ansible_collections.berth.kvm.plugins.module_utils.model import reply, whereabouts_digest
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid

HERE = Path(__file__).resolve().parent
HOST = json.loads((HERE.parent / "unit" / "plugins" / "action" / "host.json").read_text("utf-8"))
CPUS, MEMORY_MB, DISK_GB = 64, 262144, 4000
FLAVOR = {
    "name": "small",
    "vcpus": 2,
    "memory_mb": 2048,
    "root_gb": 20,
    "ephemeral_gb": 0,
    "swap": 0,
    "extra_specs": {},
}
CATALOG = {
    "berth_flavors": {"small": {"vcpus": 2, "memory_mb": 2048, "root_gb": 20}},
    "berth_images": {
        "debian12": {
            "url": "https://images.example.org/d.qcow2",
            "checksum": "sha256:" + "0" * 64,
            "disk_format": "qcow2",
        }
    },
    "berth_networks_defined": {"lan": {"type": "bridge", "source": "br0"}},
}
OF_INSTANCES = {"berth_flavor": "small", "berth_image": "debian12", "berth_networks": [{"network": "lan"}]}


def make(room, hosts, instances, wanted):
    """The inventory of ``hosts`` with ``instances`` each, of which it names the first ``wanted`` as ``old``, and as many that
    are still to be made as ``new``."""
    shutil.copy(HERE / "simulated_host.py", room)
    subprocess.run(["gcc", "-O2", "-o", room / "python", HERE / "simulated_host.c"], check=True)
    names = ["kvm%05d" % number for number in range(hosts)]
    held = {name: [name.replace("kvm", "web") + "-%02d" % at for at in range(instances)] for name in names}
    digests = remembered(held)
    old = ["web%05d-%02d" % divmod(at, instances) for at in range(wanted)]
    for name in names:
        make_host(room / "hosts" / name, name, held[name], digests, [each for each in held[name] if each in old])
    kvm_hosts = {name: {"ansible_python_interpreter": str(room / "hosts" / name / "python")} for name in names}
    reach = {"ansible_connection": "local", "ansible_pipelining": True, "ansible_become": False}
    groups = {
        "kvm_hosts": {"vars": reach, "hosts": kvm_hosts},
        "old": {"vars": OF_INSTANCES, "hosts": dict.fromkeys(old, {})},
        "new": {"vars": OF_INSTANCES, "hosts": {"new%03d" % at: {} for at in range(wanted)}},
    }
    inventory = room / "inventory.json"
    inventory.write_text(json.dumps({"all": {"vars": CATALOG, "children": groups}}))
    return inventory


def host_uuid(name):
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def remembered(held):
    """The digests of a host that the last run has told everything."""
    known = {
        instance_uuid("default", each): (host_uuid(host), 1, 4)
        for host, instances in held.items()
        for each in instances
    }
    return whereabouts_digest.digests(known, {host_uuid(host): host for host in held})


def make_host(folder, name, instances, digests, looked_at=()):
    folder.mkdir(parents=True)
    own = host_uuid(name)
    document = document_of(name, own, [instance_of(each) for each in instances])
    facts = {"changed": False, "ansible_facts": {"berth_host": document}}
    scan = {
        "changed": False,
        "host_uuid": own,
        "instances": [record_of(each) for each in instances],
        "notes": {},
        "volumes": [],
    }
    replies = {
        "host_facts": facts,
        "host_facts-digests": {**facts, "digests": digests, "looks": [look_of(each) for each in looked_at]},
        "host_facts-moves": {**facts, "moves": []},
        "no-claims": scan,
        "ping": {"ping": "pong"},
    }
    reply.check("host_facts", replies["host_facts-digests"], name)
    reply.check("rescan", scan, name)
    for module, said in replies.items():
        (folder / (module + ".json")).write_text(json.dumps(said))
    (folder / "python").symlink_to("../../python")


def document_of(name, own, instances):
    count = len(instances)
    memory_mb, disk_gb = count * FLAVOR["memory_mb"], count * FLAVOR["root_gb"]
    cell = {**HOST["numa_topology"]["cells"][0], "cpuset": list(range(CPUS)), "memory_mb": MEMORY_MB}
    cell["siblings"] = [[cpu] for cpu in range(CPUS)]
    cell["mempages"] = [
        {**pages, "total": MEMORY_MB * 256 if pages["size_kb"] == 4 else 0} for pages in cell["mempages"]
    ]
    return {
        **HOST, "host": name, "node": name, "hypervisor_hostname": name, "uuid": own, "instances": instances,
        "num_instances": count, "vcpus": CPUS, "vcpus_used": count * FLAVOR["vcpus"], "memory_mb": MEMORY_MB,
        "memory_mb_used": memory_mb, "free_ram_mb": MEMORY_MB - 512 - memory_mb, "local_gb": DISK_GB,
        "local_gb_used": disk_gb, "free_disk_gb": DISK_GB - disk_gb, "disk_available_least": DISK_GB - disk_gb,
        "numa_topology": {"cells": [cell]},
    }  # fmt: skip


def instance_of(name):
    """As the host's facts have it."""
    amounts = {part: FLAVOR[part] for part in ("vcpus", "memory_mb")}
    return {
        "uuid": instance_uuid("default", name), "name": name, "project_id": "default", "role": "OWN", "generation": [1, 4],
        "phase": "active", "vm_state": "active", "task_state": None, "power_state": "running", "foreign": False,
        "flavor": FLAVOR, "group": None, "image_props": {}, "pool": None, "pcpus": 0, "disk_gb": FLAVOR["root_gb"],
        "nics": [], **amounts,
    }  # fmt: skip


def look_of(name):
    """As a host tells of an instance that is as its record says, see compute/guest/settled.py."""
    parts = ("uuid", "name", "role", "phase", "generation", "vm_state", "power_state")
    shown = {part: instance_of(name)[part] for part in parts}
    said = {"converged": True, "compared": True, "filters": {}, "instance": {**shown, "state": "running"}}
    return {"uuid": shown["uuid"], **said}


def record_of(name):
    """As a rescan tells it."""
    known = (
        "uuid",
        "name",
        "project_id",
        "role",
        "generation",
        "phase",
        "power_state",
        "group",
        "vcpus",
        "pcpus",
        "memory_mb",
    )
    instance = instance_of(name)
    return {**{part: instance[part] for part in known}, "token": "5f0c1f7d" * 4, "nics": []}


def reset(room):
    """As it was before anything was claimed, with an empty log."""
    (room / "log").write_text("")
    for host in (room / "hosts").iterdir():
        shutil.copy(host / "no-claims.json", host / "rescan.json")
