# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action prepare_outage_unit: see plugins/modules/prepare_outage_unit.py for its documentation."""

from __future__ import annotations

import hashlib
import posixpath

from ..plugin_utils import outage_code, registry_access, registry_members
from ..plugin_utils.host_reply import HostAction, run_module, temporary_directory

MODULE = "outage_unit"


class ActionModule(HostAction):
    """The host gets the code only if it lacks it."""

    def on_host(self, task_vars):
        _result, args = self.validate_argument_spec(
            argument_spec={
                "registry": {"type": "str", "required": True},
                "directory": {"type": "path", "required": True},
            }
        )
        members = registry_access.members_of(args["registry"])
        code = outage_code.packed()
        access = _access(members, args["directory"], self._task.check_mode)
        told = {**access, "digest": hashlib.sha256(code).hexdigest()}
        result = run_module(self, MODULE, told, task_vars)
        if self._task.check_mode or not result.get("lacks_code"):
            return result
        with temporary_directory(self) as directory:
            remote = posixpath.join(directory, "code")
            self._transfer_data(remote, code)
            return run_module(self, MODULE, {**told, "code": remote}, task_vars)


def _access(members, directory, dry):
    """With what the host reads the registry. Raises RegistryAuthorityMissing."""
    user, password = registry_access.login(directory, registry_access.HOST) or (registry_access.HOST, "")
    authority = registry_access.authority_in(directory).text
    settings = {"members": members, "user": user, "password": password, "authority": authority}
    return {"settings": settings, "certificate": registry_members.certificate_of_hosts(directory, dry)}
