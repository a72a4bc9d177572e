# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables that Ansible or a playbook sets in each run. Given by a person they would win, and the run would be about
other instances than Ansible's options say, build on another host than was chosen, or do nothing and end well."""

from __future__ import annotations

import re
from typing import Any, List, Mapping, Optional

from ansible import context

from ..module_utils.model import input_hints
from ..module_utils.model.errors import BerthError, InvalidInput, joined

OPTIONS = {"ansible_check_mode": "--check", "ansible_diff_mode": "--diff", "ansible_limit": "--limit"}
# What a role is given for one instance; -e holds for all of them.
OF_ONE_INSTANCE = frozenset(
    (
        "ansible_facts",
        "berth_may_fail",
        "create_may_fail",
        "delete_may_fail",
    )
)
INTERNAL = re.compile("__(berth|create|delete|kvm_host|move)_")  # of the playbooks and roles
REPORT_FILE = "__berth_report_file"  # the inventory plugin gives it to the playbook that reads the hosts


def check_set_by_the_run(limit: Optional[str], extra_vars: Mapping[str, Any]) -> None:
    """Raise InvalidInput for each of them in ``extra_vars``, and for an ansible_limit (``limit``) that no --limit has set."""
    errors: List[BerthError] = [
        InvalidInput("-e: %s" % name, extra_vars[name], _rule(name), hint=_hint(name))
        for name in sorted(extra_vars)
        if name in OPTIONS or name in OF_ONE_INSTANCE or (INTERNAL.match(name) and name != REPORT_FILE)
    ]
    if not errors and limit != context.CLIARGS.get("subset"):
        errors.append(InvalidInput("ansible_limit", limit, _rule("ansible_limit"), hint=_hint("ansible_limit")))
    if errors:
        raise joined(errors)


def _rule(name: str) -> str:
    return "what Ansible sets by %s" % OPTIONS[name] if name in OPTIONS else "what the run sets itself"


def _hint(name: str) -> str:
    return input_hints.give_option(name, OPTIONS[name]) if name in OPTIONS else input_hints.leave_out(name)
