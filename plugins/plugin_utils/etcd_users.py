# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The users of the registry's etcd: root, the controllers, who reach berth's keys alone, and the hosts, who read of them who owns
which instance.

A certificate of the registry's authority lets somebody talk to a member. etcd's JSON gateway does not take the name in it for a
login, so each user has a password beside it.
"""

from __future__ import annotations

from typing import Dict

from ..module_utils.conductor.errors import RegistryRefused
from ..module_utils.conductor.registry.keys import INSTANCES, META, PREFIX
from ..module_utils.model.messages import Document
from .etcd import Etcd, with_prefix
from .registry_access import CONTROLLER, HOST, ROOT

ROLES = {CONTROLLER: "berth", HOST: "berth-host", ROOT: "root"}
MAY = ((CONTROLLER, "READWRITE", PREFIX), (HOST, "READ", META), (HOST, "READ", INSTANCES))


def set_up(etcd: Etcd, passwords: Dict[str, str]) -> None:
    """Make the users, and from then on let in nobody else. ``etcd``: without a login. Done again, it changes nothing."""
    for user, role in ROLES.items():
        _made(etcd, "/v3/auth/role/add", {"name": role})
        if not _made(etcd, "/v3/auth/user/add", {"name": user, "password": passwords[user]}):
            etcd.order("/v3/auth/user/changepw", {"name": user, "password": passwords[user]})
        etcd.order("/v3/auth/user/grant", {"user": user, "role": role})
    for user, how, prefix in MAY:
        etcd.order("/v3/auth/role/grant", {"name": ROLES[user], "perm": {"permType": how, **with_prefix(prefix)}})
    etcd.order("/v3/auth/enable", {})


def space_again(root: Etcd) -> bool:
    """Let etcd take something again that was full and got more space; if it is full still, it stops at once. Return whether it
    was full. ``root``: logged in as that."""
    alarms = root.ask("/v3/maintenance/alarm", {"action": "GET"}).get("alarms", ())
    for alarm in alarms:
        root.order("/v3/maintenance/alarm", {"action": "DEACTIVATE", **alarm})
    return bool(alarms)


def _made(etcd: Etcd, path: str, body: Document) -> bool:
    """Whether it was not there before, as after a run that was cut off."""
    try:
        etcd.order(path, body)
        return True
    except RegistryRefused as error:
        if "already exists" in error.message:
            return False
        raise
