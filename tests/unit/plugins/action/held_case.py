# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance that a host has, for the tests of actions that find one."""

from __future__ import annotations

from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils import driving

WEB = instance_uuid("default", "web1")


def held(**changes):
    """web1 as the facts of its host have it."""
    return {
        "uuid": WEB, "name": "web1", "project_id": "default", "flavor": None, "group": None, "role": "OWN",
        "phase": "active", "vm_state": "active", "task_state": None, "power_state": "running", "foreign": False,
        "vcpus": 1, "pcpus": 0, "memory_mb": 128, "disk_gb": 1, "pool": "berth", "image_props": {},
        "generation": [1, 5], **changes,
    }  # fmt: skip


def image_asked(monkeypatch, instance):
    """What was asked: [(module, arguments)]; ``fails``: a module that fails. ``instance``: what its host tells of it."""
    told, fails = [], []

    def ask_each(_action, _task_vars, module, arguments, at, _check):
        told.extend((module, given) for given in arguments.values())
        if module in fails:
            return {name: {"error": {"code": "UploadFailed", "message": "no route"}} for name in arguments}
        if module == "cached_image":
            return {name: {"changed": True, "present": True} for name in arguments}
        return {name: {"changed": True, "instance": {"uuid": WEB, **instance}} for name in arguments}

    monkeypatch.setattr(driving, "ask_each", ask_each)
    return told, fails
