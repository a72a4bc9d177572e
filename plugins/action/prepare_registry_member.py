# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action prepare_registry_member: see plugins/modules/prepare_registry_member.py for its documentation."""

from __future__ import annotations

import os
import posixpath

from ..module_utils.model.errors import InvalidInput
from ..plugin_utils import acting, registry_members
from ..plugin_utils.authority import Authority
from ..plugin_utils.host_reply import HostAction, run_module, temporary_directory
from ..plugin_utils.registry_access import AUTHORITY, HOSTS_AUTHORITY, ROOT

MODULE = "registry_member"
DAYS = 730


class ActionModule(HostAction):
    def on_host(self, task_vars):
        _result, args = self.validate_argument_spec(
            argument_spec={
                "directory": {"type": "path", "required": True},
                "quota_gb": {"type": "int", "required": True},
                "backup_directory": {"type": "path", "required": True},
                "backups": {"type": "int", "required": True},
                "snapshot": {"type": "path"},
            }
        )
        settings = self._settings(args, task_vars)
        settings["hosts_authority"] = Authority(args["directory"], HOSTS_AUTHORITY, self._task.check_mode).text
        found = run_module(self, MODULE, {}, task_vars)
        if found.get("failed") or found.get("unreachable"):
            return found
        reasons, signed = self._signed(args["directory"], found["held"], task_vars)
        told = {"settings": settings, "signed": signed}
        if not self._task.check_mode:
            told["root_password"] = registry_members.passwords(args["directory"])[ROOT]
        result = self._told(told, args["snapshot"], task_vars)
        changed = any(each.get("changed") for each in (found, result))
        return {**result, "changed": changed or bool(reasons), "reasons": reasons}

    def _settings(self, args, task_vars):
        members = registry_members.addresses(task_vars)
        name = task_vars["inventory_hostname"]
        if name not in members:
            raise InvalidInput("inventory_hostname", name, "a host of group %s" % registry_members.GROUP)
        kept = {part: args[part] for part in ("quota_gb", "backup_directory", "backups")}
        return {"name": name, "members": members, **kept}

    def _signed(self, directory, held, task_vars):
        """Why the member gets a new certificate, and that."""
        dry, names = self._task.check_mode, registry_members.names_of(task_vars, task_vars["inventory_hostname"])
        own = Authority(directory, AUTHORITY, dry)
        if not own.certificate:
            return ["there is no authority"], {}
        reasons = own.reasons(held, names)
        if not reasons or dry:
            return reasons, {}
        return reasons, {
            "certificate": own.sign_without_common_name(held["request"], names, DAYS),
            "authority": own.text,
        }

    def _told(self, told, snapshot, task_vars):
        if not snapshot:
            return run_module(self, MODULE, told, task_vars)
        if not os.path.isfile(snapshot):
            raise InvalidInput("berth_registry_snapshot", snapshot, "a file on the controller")
        told = {**told, "token": acting.by()["run"]}
        if self._task.check_mode:
            return run_module(self, MODULE, {**told, "snapshot": snapshot}, task_vars)
        with temporary_directory(self) as directory:
            remote = posixpath.join(directory, "snapshot.db")
            self._transfer_file(snapshot, remote)
            return run_module(self, MODULE, {**told, "snapshot": remote}, task_vars)
