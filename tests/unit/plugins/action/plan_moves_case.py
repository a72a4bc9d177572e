# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Three hosts with instances, and what plan_moves decides of a resize or migration of them."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from controller import Controller

from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid

HOST = json.loads((Path(__file__).parent / "host.json").read_text())
CATALOG = {
    "berth_flavors": {
        "small": {"vcpus": 1, "memory_mb": 128, "root_gb": 1},
        "big": {"vcpus": 2, "memory_mb": 256, "root_gb": 2},
        "huge": {"vcpus": 64, "memory_mb": 128, "root_gb": 1},
        "less": {"vcpus": 2, "memory_mb": 256, "root_gb": 0},
        "lean": {"vcpus": 2, "memory_mb": 32, "root_gb": 2},
        "gone": {"vcpus": 2, "memory_mb": 256, "root_gb": 2, "disabled": True},
        "theirs": {"vcpus": 2, "memory_mb": 256, "root_gb": 2, "projects": ["other"]},
        "cells": {"vcpus": 2, "memory_mb": 256, "root_gb": 2, "extra_specs": {"hw:numa_nodes": "1"}},
        "wrong": {"vcpus": 2, "memory_mb": 256, "root_gb": 2, "extra_specs": {"hw:cpu_policy": "no such"}},
    },
    "berth_images": {
        "guest": {"url": "/images/guest.qcow2", "checksum": "sha256:" + "0" * 64, "disk_format": "qcow2"},
    },
    "berth_server_groups": {"pair": {"policy": "anti-affinity"}},
}
SMALL = {
    "name": "small", "vcpus": 1, "memory_mb": 128, "root_gb": 1, "ephemeral_gb": 0, "swap": 0, "extra_specs": {},
    "disabled": False, "projects": [],
}  # fmt: skip
HOSTS = ("h1", "h2", "h3")


def host_uuid(name):
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def held(name, group=None, **changes):
    """An instance as the facts of its host have it."""
    return {
        "uuid": instance_uuid("default", name), "name": name, "project_id": "default", "flavor": SMALL, "group": group,
        "role": "OWN", "phase": "active", "vm_state": "active", "task_state": None, "power_state": "running",
        "foreign": False, "vcpus": 1, "pcpus": 0, "memory_mb": 128, "disk_gb": 1, "pool": "berth", "image_props": {},
        **changes,
    }  # fmt: skip


# A domain without a record, as the facts of its host have it.
STRAY = {
    "foreign": True, "managed": True, "project_id": None, "flavor": None, "role": None, "phase": None, "vm_state": None,
    "pool": None,
}  # fmt: skip


def view(name, group=None, **changes):
    """The same as the host's record has it."""
    spec = {
        "schema": 1, "uuid": instance_uuid("default", name), "name": name, "project_id": "default", "flavor": SMALL,
        "image": {"name": "guest", "id": "guest", "min_disk": 0, "min_ram": 64, "properties": {}},
        "group": {"name": group, "uuid": group, "policy": "anti-affinity", "members": [], "rules": {}} if group else None,
        "force_hosts": ["h1"], "requested_destination": "h1", "ignore_hosts": [], "scheduler_hints": {},
        "num_instances": 1, "instance_uuids": [instance_uuid("default", name)], "pool": "berth",
    }  # fmt: skip
    return {
        "uuid": spec["uuid"], "name": name, "project_id": "default", "role": "OWN", "phase": "active", "op": None, "attempt": 0,
        "spec": spec, "vm_state": "active", "task_state": None, "migration": None, "last_move": None, "running": True, **changes,
    }  # fmt: skip


def vm(flavor="big", **more):
    return {"berth_flavor": flavor, "berth_image": "guest", **{"berth_" + key: value for key, value in more.items()}}


def plan(
    action="resize",
    instances=None,
    variables=None,
    args=None,
    silent=(),
    groups=None,
    views=None,
    hosts=None,
    stray=None,
    at=None,
    held_with=None,
):
    """plan_moves over instances that are at rest on h1, or where ``at`` says -> its facts; ``views``: what their records
    have otherwise, ``held_with`` what their hosts' facts have; ``hosts``: variables of hosts; ``stray``: an
    instance of which h1 has the domain and no record."""
    instances = instances or {"a": vm()}
    groups = groups or {}
    at = at or {"h1": list(instances)}
    known = {}
    for host in HOSTS:
        there = [held(name, groups.get(name), **(held_with or {})) for name in at.get(host, ()) if name != stray]
        there += [held(stray, **STRAY)] if stray and host == "h1" else []
        document = {**HOST, "uuid": host_uuid(host), "instances": there, "num_instances": len(there)}
        known[host] = {"berth_host": document}
    it = Controller(
        {"kvm_hosts": HOSTS, "instances": list(instances)},
        {"all": {**CATALOG, **(variables or {})}, **instances, **(hosts or {})},
        known,
    )
    answers = {}
    for host in HOSTS:
        moves = [
            view(name, groups.get(name), **(views or {}).get(name, {})) for name in at.get(host, ()) if name != stray
        ]
        answers[host] = (
            {"reason": "UNREACHABLE: no route"} if host in silent else {"ansible_facts": known[host], "moves": moves}
        )
    it.register("localhost", __berth_facts={"answers": answers})
    given = {"instances": list(instances), "action": action, **(args or {})}
    return it.run("plan_moves", given)["ansible_facts"]["berth_moves"]
