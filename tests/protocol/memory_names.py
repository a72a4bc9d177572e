# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instance that the model moves, its two hosts, and how a run of the model ends early."""

from __future__ import annotations

from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid

NAME, PROJECT = "vm", "default"
UUID, VOLUME = instance_uuid(PROJECT, NAME), volume_uuid(PROJECT, "db")
S, D = "S", "D"
WHO = {"uuid": UUID, "name": NAME, "project_id": PROJECT}
OLD = {**WHO, "flavor": {"name": "old", "vcpus": 1, "memory_mb": 128, "root_gb": 1}}
NEW = {**WHO, "flavor": {"name": "new", "vcpus": 2, "memory_mb": 256, "root_gb": 2}}
CEILINGS = {"berth:max_vcpus": "4", "berth:max_memory_mb": "1024"}
OFF, ON, PAUSED = 0, 1, 2


class Killed(Exception):
    """The process died here."""


class Violation(Exception):
    """An invariant is broken."""
