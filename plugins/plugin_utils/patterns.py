# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No --limit and no pattern (berth_instances, berth_kvm_hosts) is blank: Ansible would take it for all hosts."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Mapping, Optional

from ..module_utils.model.errors import InvalidInput

PATTERNS = ("berth_instances", "berth_kvm_hosts")
NAMES_HOSTS = (
    "a pattern that names something; an empty one would stand for everything. Where everything is meant, leave it out"
)


def check_patterns(limit: Optional[str], extra_vars: Mapping[str, Any]) -> None:
    """Ansible takes a pattern in which no host is named, as a shell variable that is not set leaves it, for all hosts."""
    if limit is not None and _is_blank(_lines(limit) if limit.startswith("@") else limit):
        raise InvalidInput("--limit", limit, NAMES_HOSTS)
    for variable in PATTERNS:
        if variable in extra_vars and _is_blank(extra_vars[variable]):
            raise InvalidInput(variable, extra_vars[variable], NAMES_HOSTS)


def _is_blank(pattern: Any) -> bool:
    if isinstance(pattern, list):
        return all(map(_is_blank, pattern))
    return pattern is None or not str(pattern).strip(",: \t\r\n")


def _lines(limit: str) -> str:
    """What is in the file of --limit @FILE."""
    with contextlib.suppress(OSError, UnicodeDecodeError):  # Ansible has read it, or said what is wrong with it
        return Path(limit[1:]).read_text("utf-8")
    return limit
