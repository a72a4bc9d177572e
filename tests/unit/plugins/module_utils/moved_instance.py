# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hosts say of one instance and of its move, and what the controller plans from that."""

from __future__ import annotations

from ansible_collections.berth.kvm.plugins.module_utils.conductor import moving, sides

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
SMALL = {"name": "small", "vcpus": 1, "memory_mb": 128, "root_gb": 1}
BIG = {"name": "big", "vcpus": 2, "memory_mb": 256, "root_gb": 2}


def view(role="OWN", phase="active", migration=None, **more):
    return {
        "uuid": UUID, "role": role, "phase": phase, "op": "op" if migration else None, "attempt": 1 if migration else 0,
        "vm_state": "active", "task_state": None, "migration": migration, "last_move": None,
        "running": True, "has_left": False, "spec": {"flavor": SMALL, "force_hosts": ["kvm1"], "requested_destination": "kvm1"}, **more,
    }  # fmt: skip


MOVE = {
    "type": "resize", "source": {"uuid": "u1", "name": "x"}, "destination": {"uuid": "u2", "name": "y"},
    "new_spec": {"flavor": BIG},
}  # fmt: skip
NAMES = {"u1": "kvm1", "u2": "kvm2"}


def plan(action, sides, flavor=BIG, locked=None, kind="resize", target=None):  # pylint: disable=dangerous-default-value
    return moving.plan(action, kind, UUID, "vm", sides, {"flavor": flavor}, locked, target)


def find(views, names=None, silent=(), lost=()):
    silent = silent if isinstance(silent, dict) else dict.fromkeys(silent, "down")
    return sides.find(UUID, "vm", views, names or NAMES, silent, lost)


def at_rest(**more):
    return find({"kvm1": {UUID: view(**more)}})


def returned(role, phase, generation, lost=(), teller="kvm1"):
    """kvm2 is back; kvm1 has ended the move without it, or ``teller`` says so."""
    there = {UUID: view(role, phase, MOVE, generation=generation)}
    owner = view(generation=[3, 4], lost_moves=["op"], last_move="reverted")
    return sides.find(UUID, "vm", {teller: {UUID: owner}, "kvm2": there}, NAMES, {}, lost)
