# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables with which Ansible logs in to a host. A wrong one ends a task of a role before its action, in Ansible's words."""

from __future__ import annotations

from typing import Any

from ansible.plugins.loader import become_loader, connection_loader

from ..module_utils.model.errors import InvalidInput
from ..module_utils.model.schema import Whole
from .move_options import Option, Switch


class Rendered:
    """Anything: its template has not failed."""

    def check(self, value: Any, field: str) -> None:
        pass


class Plugin:
    """The name of a plugin that there is."""

    def __init__(self, loader: Any, known: str) -> None:
        self.loader, self.rule = loader, "a plugin that there is, such as %s" % known

    def check(self, value: Any, field: str) -> None:
        if value and value != "smart" and not self.loader.has_plugin(str(value)):
            raise InvalidInput(field, value, self.rule)


RENDERED = ("host", "user", "password", "ssh_private_key_file", "ssh_common_args", "become_user", "become_password")
CHECKS = {
    **{"ansible_" + name: Rendered() for name in RENDERED},
    "ansible_become": Switch(),
    "ansible_become_method": Plugin(become_loader, "sudo"),
    "ansible_connection": Plugin(connection_loader, "ssh"),
    "ansible_port": Option(Whole(1, 65535)),
}
