# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The members that the inventory gives the registry, the passwords of its users, which are beside its authority, and with what hosts
read it."""

from __future__ import annotations

import secrets
from typing import Any, Dict, List

from ..module_utils.model.errors import InvalidInput
from . import authority
from .documents import write_file
from .etcd import Member
from .inventory_variables import variables
from .registry_access import HOST, HOSTS_AUTHORITY, PASSWORDS, PORT, VARIABLE

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
