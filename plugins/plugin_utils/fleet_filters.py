# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run that creates or deletes instances changes who is in a security group, so afterwards the packet filters of all
instances of the inventory, selected or not, are brought up to date."""

from __future__ import annotations

from typing import Any, Dict, List

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from ..module_utils.conductor import security_group_members
from ..module_utils.conductor.security_group_members import Membership
from ..module_utils.model import catalog_schema
from ..module_utils.model.errors import BerthError
from ..module_utils.model.identity import IDENTITY, project_of, uuid_of
from .fan_out import answers, ask
from .inventory_variables import kvm_hosts, lost_hosts, raw_vars, variables
from .plain import plain
from .screen import warn
from .whose_variables import Catalogs, is_rendered

GROUPS = "berth_security_groups_defined"
OF_NICS = ("berth_networks", "berth_security_groups", *IDENTITY)
# A run that writes a filter reads again, as after the claim of an address: of two runs, at least one sees the other.
PASSES = 3


def follow(action: ActionBase, task_vars: Dict[str, Any], reachable: List[str]) -> None:
    """Update the filters on the ``reachable`` hosts. A failure is reported but stops nothing: the next run retries."""
    of_hosts = frozenset(kvm_hosts(task_vars))
    names = [name for name in task_vars["groups"]["all"] if name not in of_hosts]
    if not any(_may_name_a_group(raw_vars(task_vars, name).get(GROUPS)) for name in names):
        return
    try:
        catalogs = Catalogs(task_vars, [], kvm_hosts(task_vars), action._loader)
        membership = _membership(task_vars, catalogs)
        if not membership.remote:
            return
        lost = lost_hosts(catalogs.run)
        for _pass in range(PASSES):
            if not _pass_over(action, task_vars, membership, reachable, lost):
                return
    except (BerthError, AnsibleError) as error:
        warn(security_group_members.not_followed(str(error)))


def _pass_over(action, task_vars, membership, reachable, lost) -> bool:
    """Update the filters once. Return whether one changed, so that the hosts must be read again."""
    scans = plain(answers(ask(action, task_vars, reachable, "rescan", {})))
    scanned = {host: scan["instances"] for host, scan in scans.items() if "instances" in scan}
    silent = [host for host in kvm_hosts(task_vars) if host not in scanned and host not in lost]
    groups, messages = security_group_members.wanted(membership, scanned, silent)
    args = {"instances": membership.instances, "groups": groups}
    replies = plain(answers(ask(action, task_vars, scanned, "group_members", args)))
    changed = any(reply.get("changed") for reply in replies.values()) and not action._task.check_mode
    if not changed:
        for host, reply in replies.items():
            if "waiting" not in reply:
                silent.append(host)
            messages += [
                security_group_members.waits(record["name"], record["why"]) for record in reply.get("waiting", ())
            ]
        if silent:
            messages.append(security_group_members.silent_hosts(silent))
        for message in dict.fromkeys(messages):
            warn(message)
    return changed


def _membership(task_vars, catalogs) -> Membership:
    """Who is in which group, for all instances of the inventory."""
    membership = Membership()
    for name in catalogs.instances:
        values = variables(task_vars, name, OF_NICS)
        try:
            uuid = uuid_of(name, values)
        except BerthError:
            continue  # no instance can have this name
        try:
            catalog = catalogs.of(name)
            membership.add(uuid, name, project_of(values), _nics(values, catalog), catalog.security_groups)
        except (BerthError, KeyError) as error:
            membership.unknown.append(uuid)
            warn(security_group_members.groups_unknown(name, str(error)))
    return membership


def _nics(values, catalog) -> list:
    """[(groups, network)] of the NICs of an instance."""
    checks = {part: catalog_schema.INSTANCE[part] for part in ("berth_networks", "berth_security_groups")}
    checked = {part: check.check(values.get(part) or [], part) for part, check in checks.items()}
    own = checked["berth_security_groups"]
    return [
        (own if nic["security_groups"] is None else nic["security_groups"], catalog.networks[nic["network"]])
        for nic in checked["berth_networks"]
    ]


def _may_name_a_group(raw) -> bool:
    return raw is not None and ("remote_group" in repr(raw) or is_rendered(raw))
