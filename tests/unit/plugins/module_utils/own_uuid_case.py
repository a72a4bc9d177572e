# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleets of hosts with guests, and with instances whose uuid may not follow from their name."""

from __future__ import annotations

from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import Fleet
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid

GUEST = "5f0c1f7d-9d0b-4a1c-8d7f-1e2a0b7f9a52"
WEB = instance_uuid("default", "web1")
UUIDS = {name: "4c4c4544-0042-3510-8052-b4c04f4a323%d" % at for at, name in enumerate(("h1", "h2", "h3"))}


def foreign(uuid=GUEST, name="web1"):
    return {"uuid": uuid, "name": name, "foreign": True, "managed": False, "damaged": None, "power_state": "running"}


def owned(uuid=GUEST, name="web1", adopted="web1", **more):
    return {
        "uuid": uuid, "name": name, "foreign": False, "role": "OWN", "phase": "active", "generation": [1, 0],
        "project_id": "default", "power_state": "running", "adopted": adopted, **more,
    }  # fmt: skip


def fleet(verdicts=None, notes=None, **hosts):
    documents = {name: {"uuid": UUIDS[name], "instances": instances} for name, instances in hosts.items()}
    strays = {}
    for name, instances in hosts.items():
        for each in instances:
            if each["foreign"]:
                strays.setdefault(each["uuid"], []).append({"host": name, **each})
    told = {UUIDS[name]: (notes or {}).get(name, {}) for name in hosts}
    return Fleet(documents, verdicts or {}, told, strays)
