# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decisions that leave receipts, and the playbooks that read them."""

from __future__ import annotations

from controller import Controller
from placement_case import VM, place

MB = 1 << 20


def create(instances=None, variables=None, **more):
    return place(instances or {"web1": VM}, variables, args={"plan": True}, **more)


def files(own_state):
    folder = own_state / "receipts"
    return sorted(folder.iterdir()) if folder.exists() else []


def run(action, args, variables=None, hosts=("h1", "h2")):
    return Controller({"kvm_hosts": hosts}, {"all": variables or {}}).run(action, args)


def replay(path):
    return run("replay_receipt", {"path": str(path)})


def why(name, **variables):
    return run("show_decision", {"name": name}, variables)
