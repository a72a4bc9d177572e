# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The members that the inventory gives the registry, the users of its etcd with their passwords, which are beside its authority, and
with what hosts read it."""

from __future__ import annotations

import secrets
from typing import Any, Dict, List

from ..module_utils.conductor.errors import RegistryRefused
from ..module_utils.conductor.registry.keys import INSTANCES, META, PREFIX
from ..module_utils.model.errors import InvalidInput
from ..module_utils.model.messages import Document
from . import authority
from .documents import write_file
from .etcd import Etcd, Member, with_prefix
from .inventory_variables import variables
from .registry_access import CONTROLLER, HOST, HOSTS_AUTHORITY, PASSWORDS, PORT, ROOT, VARIABLE

GROUP = "berth_registry_hosts"
ADDRESS = ("berth_registry_address", "berth_host_migration_address", "ansible_host")
NUMBERS = (1, 3)
DAYS = 730
HOSTS_CERTIFICATE = "registry-hosts.pem"


def addresses(task_vars: Dict[str, Any]) -> Dict[str, str]:
    """Name of a member -> where the controller and the others reach it. Raises InvalidInput."""
    names = sorted(task_vars["groups"].get(GROUP, ()))
    if len(names) not in NUMBERS:
        rule = "one member, or three, of which one may fail"
        raise InvalidInput("group %s" % GROUP, ", ".join(names), rule)
    return {name: _address(task_vars, name) for name in names}


def _address(task_vars: Dict[str, Any], name: str) -> str:
    found = variables(task_vars, name, ADDRESS)
    return str(next((found[each] for each in ADDRESS if found.get(each)), name))


def names_of(task_vars: Dict[str, Any], name: str) -> List[str]:
    """What a certificate of the member is for."""
    ansible_host = variables(task_vars, name, ("ansible_host",)).get("ansible_host") or name
    return authority.check_names([name, _address(task_vars, name), str(ansible_host)])


def members(at: Dict[str, str]) -> List[Member]:
    return [Member(address, PORT) for address in at.values()]


def line(at: Dict[str, str]) -> str:
    """What the inventory says to use this registry."""
    named = ("[%s]" % address if ":" in address else address for address in at.values())
    return "%s: etcd://%s" % (VARIABLE, ",".join(named))


def passwords(directory: str) -> Dict[str, str]:
    """User of etcd -> its password, made where there is none."""
    found = {}
    with authority.locked(directory) as folder:
        for user, name in PASSWORDS.items():
            found[user] = authority.read(folder, name, private=True).decode() or secrets.token_urlsafe(32)
            write_file(folder, name, found[user].encode(), 0o600)
    return found


def certificate_of_hosts(directory: str, dry: bool) -> str:
    """Key and certificate, PEM, with which all hosts read the registry: it is kept here, and unless ``dry`` another one made in
    time."""
    own = authority.Authority(directory, HOSTS_AUTHORITY, dry)
    with authority.locked(directory, dry) as folder:
        kept = authority.read(folder, HOSTS_CERTIFICATE, private=True).decode()
        if not dry and (not kept or own.is_due(kept)):
            kept = "".join(own.own(HOST, DAYS))
            write_file(folder, HOSTS_CERTIFICATE, kept.encode(), 0o600)
    return kept


ROLES = {CONTROLLER: "berth", HOST: "berth-host", ROOT: "root"}
MAY = ((CONTROLLER, "READWRITE", PREFIX), (HOST, "READ", META), (HOST, "READ", INSTANCES))


def set_up_users(etcd: Etcd, passwords: Dict[str, str]) -> None:
    """Make root, the controllers, who reach berth's keys alone, and the hosts, who read of them who owns which instance. From then
    on let in nobody else. ``etcd``: without a login. Done again, it changes nothing.

    A certificate of the registry's authority lets somebody talk to a member. etcd's JSON gateway does not take the name in it for
    a login, so each user has a password beside it.
    """
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
