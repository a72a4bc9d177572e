# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No --limit and no pattern (berth_instances, berth_kvm_hosts) is blank: Ansible would take it for all hosts. No name is a
number: YAML reads 0123 as 83, and 1.10 as 1.1, also in the answers of an AWX survey."""

from __future__ import annotations

import contextlib
import fnmatch
import re
from pathlib import Path
from typing import Any, Mapping, Optional

from ansible.inventory.manager import split_host_pattern

from ..module_utils.model import fleet_hints
from ..module_utils.model.errors import InvalidInput

PATTERNS = ("berth_instances", "berth_kvm_hosts")
NAMES = (
    "berth_keep_on",
    "berth_name",
    "berth_recover_on",
    "berth_remove_host",
    "berth_set_aside_on",
    "berth_target_host",
    "berth_volume",
    *PATTERNS,
)
NOBODY = "\N{REPLACEMENT CHARACTER}"  # the name of no host: only what fits any name fits it
_SUBSCRIPT = re.compile(r"\[-?[0-9]*([:-]-?[0-9]*)?\]\Z")  # all[0:]
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


def selects_anything(pattern: Any) -> bool:
    """Whether a pattern names no host and no group: it would select a host of any name, as all, *, ~.* and !web1 do."""
    parts = [str(part) for part in split_host_pattern(pattern)]
    narrowing = [part for part in parts if part.startswith("&")]
    selecting = [part for part in parts if not part.startswith(("!", "&"))]
    return any(map(_fits_any, selecting or ["all"])) and all(_fits_any(part[1:]) for part in narrowing)


def _fits_any(part: str) -> bool:
    name = _SUBSCRIPT.sub("", part)
    if name.startswith("~"):
        return re.match(name[1:], NOBODY) is not None
    return name == "all" or fnmatch.fnmatchcase(NOBODY, name)


def check_names(given: Mapping[str, Any]) -> None:
    """Raise InvalidInput for one of NAMES that is a number or a truth value: it may have been written otherwise."""
    for variable in NAMES:
        value = given.get(variable)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, (int, float)):
                raise InvalidInput(variable, item, "a name as text", hint=fleet_hints.name_as_text(variable))


def _is_blank(pattern: Any) -> bool:
    if isinstance(pattern, list):
        return all(map(_is_blank, pattern))
    return pattern is None or not str(pattern).strip(",: \t\r\n")


def _lines(limit: str) -> str:
    """What is in the file of --limit @FILE."""
    with contextlib.suppress(OSError, UnicodeDecodeError):  # Ansible has read it, or said what is wrong with it
        return Path(limit[1:]).read_text("utf-8")
    return limit
