# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance as its host tells of it."""

from __future__ import annotations

from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid


def one(name, project="default", **change):
    found = {
        "uuid": instance_uuid(project, name),
        "name": name,
        "project_id": project,
        "role": "OWN",
        "foreign": False,
        "flavor": {"name": "small"},
        "group": None,
        "power_state": "running",
        "phase": "active",
    }
    return {**found, **change}


def address(text, source="lease"):
    return {"address": {"address": text, "source": source}}
