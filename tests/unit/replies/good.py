# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A good reply of every module, from hosts h1, h2 and h3 that hold the instances of one small fleet.

at-rest is at rest on its host, resized waits on h2 for its confirmation and h1 has its old disks, new-N is being created.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path

from ansible_collections.berth.kvm.plugins.module_utils.model import lifecycle, migration, nics, request_digest
from ansible_collections.berth.kvm.plugins.module_utils.model.catalog import Catalog
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid
from ansible_collections.berth.kvm.plugins.module_utils.placement.request import build_request

HERE = Path(__file__).resolve().parent
DOCUMENT = json.loads((HERE.parent / "plugins" / "action" / "host.json").read_text("utf-8"))
HOSTS = ("h1", "h2", "h3")
UUIDS = {name: "4c4c4544-0042-3510-8052-b4c04f4a323%d" % at for at, name in enumerate(HOSTS)}
TOKENS = {"new-1": "a" * 32, "new-2": "b" * 32}
OP = "0123456789abcdef0123456789abcdef"
CATALOG = {
    "berth_flavors": {
        "small": {"vcpus": 1, "memory_mb": 128, "root_gb": 1},
        "big": {"vcpus": 2, "memory_mb": 256, "root_gb": 1, "extra_specs": {"ram_kind": "fast"}},
    },
    "berth_images": {
        "guest": {"url": "https://images/guest.qcow2", "checksum": "sha256:" + "0" * 64, "disk_format": "qcow2"},
        "rescue": {"url": "https://images/rescue.qcow2", "checksum": "sha256:" + "1" * 64, "disk_format": "qcow2"},
    },
    "berth_networks_defined": {"lan": {"type": "bridge", "source": "br0", "cidr": "192.0.2.0/24"}},
    "berth_server_groups": {"web": {"policy": "anti-affinity", "rules": {"max_server_per_host": 2}}},
}


def spec(name, flavor="small"):
    given = {
        "inventory_hostname": name, "berth_flavor": flavor, "berth_image": "guest", "berth_server_group": "web",
        "berth_networks": [{"network": "lan", "address": "192.0.2.%d" % (2 + sum(name.encode()) % 200)}],
        "berth_metadata": {"owner": "a team"},
        "berth_hints": {"different_host": ["other"]},
    }  # fmt: skip
    return build_request(given, Catalog.from_variables(CATALOG))[0]


def resources(flavor="small"):
    amounts = {"small": (1, 128), "big": (2, 256)}[flavor]
    return {
        "vcpus": amounts[0], "pcpus": 0, "memory_mb": amounts[1], "disk_gb": 1, "numa_topology": None, "pci_devices": [],
        "vgpus": [{"parent": "0000:84:00.0", "type": "nvidia-35", "uuid": "1b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2b"}],
    }  # fmt: skip


def record(name, **changes):
    wanted = spec(name)
    return Record(
        **{
            **dict(uuid=wanted["uuid"], name=name, project_id="default", role="OWN", generation=[1, 4], token="c" * 32),
            **dict(phase="active", spec=wanted, resources=resources(), vm_state="active"),
            **changes,
        }
    )


def moved_record(host):
    """The record of ``resized`` on h1, which has let go of it, or on h2, which has it."""
    before = record("resized")
    sides = ({"uuid": UUIDS[entry], "name": entry} for entry in ("h1", "h2"))
    move = migration.new_migration(OP, migration.RESIZE, *sides, before, spec("resized", "big"), 1790000000, 600)
    there, since = host == "h2", {"boot_id": "5e7b0c1a-0000-4000-8000-000000000001", "uptime": 1234.5}
    role, phase = ("OWN", lifecycle.RESIZED) if there else ("OUT", lifecycle.KEEP)
    vm_state, task_state, status = lifecycle.names(False, role, phase, "active")
    return before.replace(
        role=role, phase=phase, op=OP, vm_state=vm_state, task_state=task_state,
        generation=[2, 3] if there else [2, 0], spec=spec("resized", "big") if there else before.spec,
        migration={**move, "status": status, "started": there, "waits_since": since if there else None},
    )  # fmt: skip


def view(record, host, **said):
    """What steps/common.view_of says of a record."""
    move = record.migration
    return {
        "uuid": record.uuid, "name": record.name, "project_id": record.project_id, "host": {"uuid": UUIDS[host], "name": host},
        "role": record.role, "phase": record.phase, "op": record.op, "generation": list(record.generation),
        "attempt": move["attempt"] if move else 0, "vm_state": record.vm_state, "task_state": record.task_state,
        "power_state": record.power_state, "spec": record.spec, "resources": record.resources, "migration": move,
        "last_move": None, "lost_moves": ["f" * 32], "running": record.role == "OWN", "executing": record.role == "OWN",
        "halted": False, "has_left": False, "confirm_in": 300 if record.phase == lifecycle.RESIZED else None, **said,
    }  # fmt: skip


def held_by(host):
    at_rest = record("at-rest-" + host)
    return [at_rest] + ([moved_record(host)] if host in ("h1", "h2") else [])


def document(host):
    """The facts of a host that holds ``held_by(host)``."""
    instances = [
        {
            "uuid": record.uuid, "name": record.name, "project_id": record.project_id, "flavor": record.spec["flavor"],
            "group": "web", "role": record.role, "phase": record.phase, "vm_state": record.vm_state, "image_props": {},
            "task_state": record.task_state, "power_state": "running", "foreign": False, "pool": "berth",
            **{part: record.resources[part] for part in ("vcpus", "pcpus", "memory_mb", "disk_gb")},
            "nics": nics.taken(record.spec["networks"]), "disks": {"logs": 2}, "request_digests": request_digest.digests(record.spec),
            "unfiltered": ["02:00:00:00:00:01"], "domain_differs": {"next_start": [["vcpus", "1", "2"]]},
        }
        for record in held_by(host)
    ]  # fmt: skip
    own = {"uuid": UUIDS[host], "host": host, "instances": instances, "num_instances": len(instances)}
    own.update(failed_builds=2, failed_build_age_s=2100)
    own["volumes"] = [
        {"uuid": volume_uuid("default", "db-" + host), "name": "db-" + host, "project_id": "default", "size_gb": 20, "role": "OWN",
         "pool": "berth", "instance": {"uuid": instances[0]["uuid"], "name": instances[0]["name"]}, "phase": "active",
         "changed_at": "2026-11-22T00:00:00Z", "grows_from_gb": 10}
    ]  # fmt: skip
    return {**copy.deepcopy(DOCUMENT), **own}


# ---- module -> (arguments, reply) ------------------------------------------------------------------------------------


FOUND = {"code": "PoolMissing", "severity": "error", "said": "storage pool berth", "uuid": None, "fixed": False}


DB_VOLUME = {"name": "db", "size_gb": 2, "delete_on_termination": False, "slot": 0}


def host_facts(host):
    views = [view(record, host) for record in held_by(host)]
    about = instance_uuid("default", "at-rest-h3")
    where = {about: {"address": "192.0.2.11", "source": "lease"}}
    return {"moves": True, "about": [about], "addresses": True, "checkup": True, "digests": True, "heard_of": True, "attached": True}, {
        "changed": False, "ansible_facts": {"berth_host": document(host)}, "moves": views, "notes": notes(about),
        "digests": {"0b": "1c6ee4b0a2a4f3c0e5d59d0b3a1c9d7f", "plans": "some"}, "heard_of": [about],
        "members": {uuid: {"name": name, "changes": 1} for name, uuid in UUIDS.items()},
        "attached": [{"uuid": about, "owner": UUIDS["h3"], "nics": ["mac 52:54:00:00:00:11"], "volumes": [dict(DB_VOLUME)]}],
        "addresses": where, "awaited": [about], "checkup": {"clock": 1800000000.5, "findings": [dict(FOUND)], "notes": notes(about)},
    }  # fmt: skip


def notes(uuid):
    """What a host remembers of an instance on h3, of which a run that was killed meant to make one on h2."""
    planned = [{"host": "h2", "host_uuid": UUIDS["h2"], "run": "r-0"}]
    return {
        uuid: {
            "known": {"host": "h3", "host_uuid": UUIDS["h3"], "generation": [1, 4]}, "planned": planned, "after": 1, "gone": None,
            "left": [1, 2],
        }
    }  # fmt: skip


def claim(host):
    name = "new-1" if host == "h1" else "new-2"
    wanted = spec(name)
    result = {
        "uuid": wanted["uuid"], "name": name, "claimed": True, "token": TOKENS[name], "allocation": resources(),
        "error": None,
    }  # fmt: skip
    withdrawn = [{"uuid": instance_uuid("default", "old"), "withdrawn": True}]
    arguments = {"claims": [{"spec": wanted, "token": TOKENS[name], "limits": {}}], "withdraw": []}
    return arguments, {"changed": True, "results": [result], "withdrawn": withdrawn}


def rescan(host):
    claimed = {"h1": ["new-1"], "h2": ["new-2"]}.get(host, [])
    records = [
        *held_by(host),
        *(record(name, role="CLAIM", phase="claimed", token=TOKENS[name], generation=[0, 1]) for name in claimed),
    ]
    told = [
        {
            "uuid": record.uuid, "name": record.name, "project_id": record.project_id, "role": record.role, "phase": record.phase,
            "generation": list(record.generation), "token": record.token, "power_state": record.power_state, "group": "web",
            **{part: record.resources[part] for part in ("vcpus", "pcpus", "memory_mb")},
            "nics": nics.taken(record.spec["networks"]),
            "lets_in": {record.uuid: ["address 192.0.2.11 on bridge br0"]}, **({} if record.name in claimed else {"own_name": record.name}),
        }
        for record in records
    ]  # fmt: skip
    about = [instance_uuid("default", "at-rest-h3"), *(instance_uuid("default", name) for name in TOKENS)]
    reply = {"changed": False, "host_uuid": UUIDS[host], "instances": told, "notes": notes(about[0])}
    reply["members"] = {uuid: {"name": name, "changes": 1} for name, uuid in UUIDS.items()}
    reply["volumes"] = [{"uuid": volume_uuid("default", "db-" + host), "project_id": "default", "size_gb": 20}]
    reply["registry"] = None
    return {"about": about, "told": {}}, reply


def shown(record):
    """What compute/instance.describe says of a record."""
    parts = ("uuid", "name", "project_id", "role", "phase", "op", "vm_state", "task_state", "power_state")
    move = record.migration
    return {
        **{part: getattr(record, part) for part in parts}, "generation": list(record.generation), "state": "running",
        "flavor": "small", "vcpus": 1, "memory_mb": 128, "root_gb": 1, "disks": {"logs": 10},
        "snapshots": [{
            "name": "one", "made_at": "2026-11-28T10:00:00Z", "taken": "frozen", "memory": False, "size_gb": 30, "disks": ["root"],
        }],
        "volumes": {"db": 20}, "delete_on_termination": ["db"], "boot_order": {"db": 1}, "image": "guest", "group": "web",
        "networks": [{"network": "lan", "mac": "02:00:00:00:00:01", "address": "192.0.2.9/24", "security_groups": ["web"]}],
        "availability_zone": None, "metadata": {"owner": "a team"},
        "migration": move
        and {"type": move["type"], "status": "finished", "source": "h1", "destination": "h2", "confirm_by": 1790000600},
        "faults": [{"code": "BuildFailed", "message": "no such\nbridge", "host": "h3", "at": "2026-11-22T00:00:00Z"}],
        "history": [{"event": "claim", "at": "2026-11-22T00:00:00Z"}],
    }  # fmt: skip


def instance(host):
    held = record("new-1" if host == "h1" else "new-2")
    diff = {"before": "{}\n", "after": '{\n "state": "running"\n}\n'}
    differs = {"now": [["vcpus", "1", "2"]], "next_start": [["memory_mb", "128", ""]]}
    said = dict(shown(held), mended="mended: memory_mb none -> 128", domain_differs=differs)
    return {"uuid": held.uuid, "state": "started"}, {"changed": True, "instance": said, "diff": diff}


def instance_backup(host):
    held = record("at-rest-" + host)
    whole = {
        "id": "20260102T030405Z", "kind": "increment", "previous": "20260101T030405Z", "bytes": 1 << 20, "of": "at-rest",
        "frozen": True, "files": ["nvram.fd", "tpm2-00.permall"], "why": ["root: it was resized"], "faults": [],
    }  # fmt: skip
    found = [whole, {"id": "20260103T030405Z", "faults": ["backup.json: nothing"]}]
    diff = {"before": "", "after": "a backup in /b: 20260102T030405Z\n"}
    image = {
        "name": "golden", "path": "/srv/images/golden.qcow2", "checksum": "sha256:" + "0" * 64, "bytes": 1 << 20,
        "min_disk": 1, "min_ram": 0, "properties": {"hw_disk_bus": "scsi"}, "kernel": None, "initrd": None, "frozen": False,
    }  # fmt: skip
    parts = [{"name": "root", "size": 1 << 30, "kind": "full"}]
    said = dict(shown(held), backups=found, made_image=image, parts=parts)
    return {"uuid": held.uuid, "state": "made", "to": "/b"}, {"changed": True, "instance": said, "diff": diff}


def backup_store(host):
    """Of all states at once."""
    (asked, answer), uuid = instance_backup(host), record("at-rest-" + host).uuid
    newest = {"id": "20260102T030405Z", "uuid": uuid, "name": "at-rest", "disks": [{"name": "root", "size": 1 << 30}]}
    said = {
        "uuid": asked["uuid"], "backups": answer["instance"]["backups"], "newest": newest, "full": False,
        "backup": "20260103T030405Z", "targets": [{"name": "root", "host": "192.0.2.1", "port": 49216}],
    }  # fmt: skip
    return {"uuid": asked["uuid"], "state": "looked", "to": "/b"}, {"changed": True, **said}


def build_instances(host):
    """Of two, the second failed."""
    (asked, made), (_asked, failed) = instance(host), failure(host)
    other = record("old").uuid
    said = [{"uuid": asked["uuid"], "reply": made}, {"uuid": other, "reply": failed}]
    return {"builds": [{"uuid": asked["uuid"]}, {"uuid": other}]}, {"changed": True, "builds": said}


def looks(host):
    """The facts with what the host says of the instances that are as their records say."""
    _asked, facts = host_facts(host)
    held = record("at-rest-" + host)
    looked = {"looks": True, "about": [held.uuid], "digests": True}
    parts = {part: facts[part] for part in ("changed", "ansible_facts", "digests")}
    return looked, {**parts, "looks": [look(held, address="192.0.2.10")]}


def look(held, **more):
    said = {"converged": True, "compared": True, "filters": {"02:00:00:00:00:01": "1f0a2b3c4d5e"}}
    said["address"] = None
    return {"uuid": held.uuid, **said, "instance": shown(held), **more}


def instance_info(host):
    progress = {"state": "copying", "bytes": 10, "total": 20, "percent": 50.0, "rate": 1.5}
    held = dict(shown(moved_record("h2")), token="c" * 32, console_log="/var/log/libvirt/qemu/x-console.log")
    held["migration"]["progress"] = progress
    address = {"mac": "02:00:00:00:00:01", "address": "192.0.2.9/24", "source": "agent"}
    held["console"] = {
        "lines": ["[    0.1] Linux version 6", ""], "attach": "virsh console " + held["uuid"], "serial": "/dev/pts/3",
        "vnc": None, "addresses": [address],
    }  # fmt: skip
    foreign = [{"uuid": "8c7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2b", "name": "legacy", "state": "running"}]
    history = [{"event": "stop", "at": "2026-11-22T00:00:00Z", "who": "ann@ctl", "run": "r-1"}]
    histories = [{"uuid": held["uuid"], "name": held["name"], "history": history, "faults": []}]
    return {"uuids": []}, {"changed": False, "instances": [held], "foreign": foreign, "histories": histories}


def volume_info(host):
    uuid = volume_uuid("default", "db-" + host)
    history = [{"event": "claim", "at": "2026-11-22T00:00:00Z", "who": "ann@ctl", "run": "r-1", "instance": "web"}]
    told = {"uuid": uuid, "name": "db-" + host, "generation": [1, 4], "image": "debian", "history": history}
    gone = {"uuid": volume_uuid("default", "old-" + host), "name": "old-" + host, "history": history, "faults": []}
    return {"uuids": [uuid, gone["uuid"]]}, {"changed": False, "volumes": [told], "deleted": [gone]}


def cached_image(host):
    asked = {"image": {"name": "guest", "checksum": "sha256:" + "0" * 64, "disk_format": "qcow2"}, "root_gb": 1}
    return asked, {"changed": False, "present": True}


def migration_of(host):
    """What every step says, all in one."""
    guest = {
        "cpu": "<cpu>\n <model>EPYC</model>\n</cpu>", "host_cpu": None, "arch": "x86_64", "machine": "pc-q35-7.2",
        "virt_type": "kvm", "qemu": 7002000, "bytes": 1 << 30,
    }  # fmt: skip
    seen = {
        "problems": [], "address": "192.0.2.1", "certificates": [], "shared": False, "pool_path": "/var/lib/libvirt/berth",
    }  # fmt: skip
    said = {
        "disks": [{"name": "root", "format": "qcow2", "size": 1 << 30}],
        "volumes": [{"uuid": volume_uuid("default", "db"), "generation": [1, 3], "image": "guest"}],
        "guest": guest,
        "seen": seen,
        "targets": [{"name": "root", "host": "192.0.2.1", "port": 49216}],
        "transfer": {"bytes": 10, "seconds": 0.5, "increments": ["root"]},
        "sent": 1,
        "ended": False,
        "downtime_ms": 431,
        "health": {"state": "no panic seen", "seen": "no agent answers, its console ends without a panic"},
    }
    move = view(moved_record("h2"), "h2", **said)
    token = {"op": OP, "attempt": 1}
    return {"uuid": move["uuid"], "steps": ["begin"], "token": token}, {
        "changed": True,
        "move": move,
        "token": token,
        "took": {"begin": 0.25},
    }


def host_prepare(host):
    diff = {"before": "{}\n", "after": "{}\n"}
    return {"settings": {}}, {
        "changed": True, "parts": ["settings", "gate"], "host_uuid": UUIDS[host],
        "listener": "libvirtd", "restart": ["libvirtd"],
        "removed_images": ["0" * 64], "forgotten_failed_builds": 2, "diff": diff,
    }  # fmt: skip


def host_certificates(host):
    pem = "-----BEGIN CERTIFICATE REQUEST-----\nMIIB\n-----END CERTIFICATE REQUEST-----\n"
    held = {kind: {"request": pem, "certificate": "", "authority": "", "revoked": ""} for kind in ("libvirt", "qemu")}
    return {}, {
        "changed": True, "held": held, "address": "192.0.2.1", "files": ["/etc/pki/qemu/server-cert.pem"],
        "loose": ["/etc/pki/libvirt/private/serverkey.pem"], "restart": [],
    }  # fmt: skip


def registry_member(host):
    pem = "-----BEGIN CERTIFICATE REQUEST-----\nMIIB\n-----END CERTIFICATE REQUEST-----\n"
    return {}, {
        "changed": True, "version": "3.4.23", "held": {"request": pem, "certificate": "", "authority": ""},
        "files": ["/etc/berth-registry/member.key"], "restart": False,
    }  # fmt: skip


def outage_unit(host):
    return {}, {"changed": True, "files": ["/etc/berth/registry.json"], "lacks_code": False}


def host_maintenance(host):
    return {"state": "drained", "reason": "new memory"}, {
        "changed": True,
        "drained": {"reason": "new memory", "by": "ada@ctl", "at": "2026-11-22T11:15:06Z"},
    }  # fmt: skip


def host_clean(host):
    return {"authorities": {}}, {
        "changed": True, "removed": ["/etc/berth/host.json"], "left": ["/etc/libvirt/hooks/qemu.d/berth: edited"],
        "restart": ["libvirtd"],
    }  # fmt: skip


def failure(host):
    """A module that refused, as compute does it."""
    error = {
        "code": "BuildFailed", "message": "starting the guest failed", "retryable": True, "hint": "Look at the log",
        "field": "pool", "value": "fast", "rule": "an active pool", "host": host,
        "also": [{"code": "NetworkNotFound", "message": "no bridge br0", "retryable": True}],
    }  # fmt: skip
    held = record("new-1" if host == "h1" else "new-2")
    result = {"failed": True, "changed": False, "msg": "BuildFailed: starting the guest failed", "error": error}
    return {"uuid": held.uuid, "state": "started"}, {**result, "error_code": "BuildFailed", "retryable": True}


def systemd_service(host):
    return {"name": "libvirtd-tls.socket"}, {"changed": False, "name": "x", "status": {"ActiveState": "active"}}


def host_system(host):
    return {}, {"changed": False, "os_family": "Debian", "service_manager": "systemd"}


def volume(host):
    uuid = volume_uuid("default", "db-" + host)
    return {"uuid": uuid}, {"changed": True, "uuid": uuid}


def group_members(host):
    uuid = instance_uuid("default", "at-rest-" + host)
    waiting = [{"uuid": uuid, "name": "at-rest-" + host, "why": "Instance at-rest is locked by ann"}]
    return {"instances": [uuid], "groups": {}}, {"changed": True, "waiting": waiting}


# kind of document -> (module, what makes arguments and reply)
KINDS = {
    "facts": ("host_facts", host_facts),
    "claims": ("claim", claim),
    "rescans": ("rescan", rescan),
    "builds": ("instance", instance),
    "backups": ("instance_backup", instance_backup),
    "backups of a backup host": ("backup_store", backup_store),
    "builds of a host": ("build_instances", build_instances),
    "errors": ("instance", failure),
    "looks": ("host_facts", looks),
    "cached images": ("cached_image", cached_image),
    "instances": ("instance_info", instance_info),
    "moves": ("migration", migration_of),
    "preparations": ("host_prepare", host_prepare),
    "certificates": ("host_certificates", host_certificates),
    "clean-ups": ("host_clean", host_clean),
    "members of the registry": ("registry_member", registry_member),
    "units after an outage": ("outage_unit", outage_unit),
    "maintenances": ("host_maintenance", host_maintenance),
    "services": ("systemd_service", systemd_service),
    "systems": ("host_system", host_system),
    "volumes": ("volume", volume),
    "histories of volumes": ("volume_info", volume_info),
    "group members": ("group_members", group_members),
}
