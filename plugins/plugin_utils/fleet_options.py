# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of playbooks about the whole fleet, such as berth_max_moves: what each may be, and which of them name KVM hosts.

All are checked before a host is asked, so that all faults of a command are told at once. An empty text is the default.
"""

from __future__ import annotations

import contextlib
from typing import Any, List, Mapping, Optional

from ..module_utils.conductor.errors import KvmHostNotFound
from ..module_utils.fleet.goals import GOALS
from ..module_utils.model.errors import InvalidInput
from ..module_utils.model.safe_text import is_safe
from ..module_utils.model.schema import OneOf, Text, Whole
from .inventory_variables import listed
from .move_options import MIGRATION, Option
from .plain import number

_NUMBERS = {
    "berth_decisions": Whole(1, 10000),
    "berth_failures": Whole(0, 3),
    "berth_hosts_at_once": Whole(1, 1000),
    "berth_kept_free": Whole(0, 10000),
    "berth_least_gain": Whole(0, 100, "percent"),
    "berth_max_moves": Whole(1, 1000),
    "berth_moves_at_once": Whole(1, 1000),
    "berth_moves_per_host": Whole(1, 1000),
    "berth_watch_most": Whole(1, 100),
    "berth_watch_seconds": Whole(1, 86400),
    "berth_watch_share": Whole(1, 100, "percent"),
}
_NUMBERS["berth_failures"].rule = "a whole number from 1 to 3; in rolling_reboot also 0"
_LONGEST_REASON = 200


class Reason:
    """Why a host is drained, which it keeps."""

    rule = "one line of at most %d printable characters without template marks" % _LONGEST_REASON

    def check(self, value: Any, field: str) -> None:
        if not is_safe(str(value or ""), _LONGEST_REASON):
            raise InvalidInput(field, value, self.rule)


REASON = Reason()
TIME_OF_DAY = Text(r"([01]?[0-9]|2[0-3]):[0-5][0-9]\Z", "a time of day of the controller, such as 06:00")
CHECKED = {
    "berth_balance_by": Option(OneOf("memory", "vcpus")),
    "berth_drain_reason": REASON,
    "berth_goal": Option(OneOf(*GOALS)),
    "berth_migration": Option(MIGRATION),
    "berth_until": Option(TIME_OF_DAY),
    **{name: Option(number_of) for name, number_of in _NUMBERS.items()},
}
BACKUP_HOST = "berth_backup_host"
BACKUP_HOSTS = "berth_backup_hosts"  # the group of those that there are
# One KVM host, or several with commas between them or as a list, or groups of them.
HOSTS = (
    "berth_adopt_on",
    "berth_hosts_gone",
    "berth_hosts_like",
    "berth_keep_on",
    "berth_kvm_host",
    "berth_recover_on",
    "berth_set_aside_on",
    "berth_target_host",
)


def whole(variable: str, value: Any, default: Optional[int] = None) -> int:
    """The number that an option is. Raises InvalidInput."""
    return _NUMBERS[variable].check(default if value in ("", None) else number(value), variable)


def unknown_hosts(given: Mapping[str, Any], hosts: List[str], groups: Mapping[str, List[str]]) -> List[KvmHostNotFound]:
    """``given``: the values of HOSTS. An error for each name in them that is neither of a KVM host nor of a group."""
    return [
        KvmHostNotFound.of(variable, name, hosts, groups["all"])
        for variable in HOSTS
        for name in _names(given, variable)
        if name and name not in hosts and name not in groups
    ]


def _names(given: Mapping[str, Any], variable: str) -> List[str]:
    with contextlib.suppress(InvalidInput):  # what is no text is refused where it is read
        return listed(given, variable)
    return []
