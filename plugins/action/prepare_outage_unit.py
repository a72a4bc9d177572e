# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action prepare_outage_unit: see plugins/modules/prepare_outage_unit.py for its documentation."""

from __future__ import annotations

import hashlib
import io
import posixpath
import zipfile
from pathlib import Path

from ..plugin_utils import registry_access, registry_members
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
        code = packed_code()
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


ROOMS = ("compute", "model", "placement")  # what code on hosts may import
TOP = Path(__file__).parents[1]
MAIN = """import sys
from module_utils.compute.guest import after_outage
sys.exit(after_outage.main(*sys.argv[1:]))
"""


def packed_code() -> bytes:
    """The code that a host runs after an outage, without a controller: one file that Python runs, see
    compute/host/outage_unit.py. The same for the same files, whatever made them: not compressed, without times."""
    rooms = [TOP / "module_utils" / room for room in ROOMS]
    files = sorted(path for room in rooms for path in room.rglob("*.py"))
    folders = {folder for path in files for folder in path.relative_to(TOP).parents if folder.name}
    texts = {str(path.relative_to(TOP)): path.read_bytes() for path in files}
    texts.update({"%s/__init__.py" % folder: b"" for folder in folders}, **{"__main__.py": MAIN.encode()})
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(texts):
            archive.writestr(zipfile.ZipInfo(name), texts[name])
    return made.getvalue()
