# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a move, such as berth_bandwidth: what each may be, and which setting of module migration it is.

An empty text is a survey's question without an answer: the default. Before 1.0 each role had names of its own for them.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, Mapping, NamedTuple, Union

from ..module_utils.model.errors import together
from ..module_utils.model.schema import OneOf, Text, Whole
from .inventory_variables import is_true
from .plain import number

DAY = 86400  # seconds


class Switch:
    """True or false, also as text from -e and a survey."""

    rule = "true or false"

    def check(self, value: Any, field: str) -> None:
        is_true({field: value}, field)


class Option:
    """What ``item`` takes; a number also as text; empty for the default."""

    def __init__(self, item: Union[OneOf, Text, Whole]) -> None:
        self.item, self.rule = item, item.rule

    def check(self, value: Any, field: str) -> None:
        if value not in ("", None):
            self.item.check(number(value), field)


MIGRATION = OneOf("auto", "cold", "live")


class MoveOption(NamedTuple):
    """``variable``: its name; ``rule``: what it may be."""

    variable: str
    rule: Union[Option, Switch]


# By the settings of module migration.
OPTIONS = {
    "bandwidth": MoveOption("berth_bandwidth", Option(Whole(0, 1 << 20, "MiB/s"))),
    "confirm_window": MoveOption("berth_confirm_window", Option(Whole(0, 366 * DAY, "seconds"))),
    "copy_while_running": MoveOption("berth_copy_while_running", Switch()),
    "max_pause": MoveOption("berth_max_pause", Option(Whole(0, DAY, "seconds"))),
    "permit_auto_converge": MoveOption("berth_permit_auto_converge", Switch()),
    "stop_timeout": MoveOption("berth_shutdown_timeout", Option(Whole(0, DAY, "seconds"))),
    "timeout": MoveOption("berth_migration_timeout", Option(Whole(0, 7 * DAY, "seconds"))),
    "timeout_action": MoveOption("berth_migration_timeout_action", Option(OneOf("abort", "force_complete"))),
    "tls": MoveOption("berth_migration_tls", Switch()),
}
_COLD = ("bandwidth", "confirm_window", "copy_while_running", "stop_timeout")
OF_ROLES = {
    "cold_migrate": _COLD,
    "live_migrate": ("bandwidth", "max_pause", "permit_auto_converge", "timeout", "timeout_action", "tls"),
    "prep_resize": ("confirm_window",),
    "resize": _COLD,
    "revert_resize": ("stop_timeout",),
}
CHECKED = {option.variable: option.rule for option in OPTIONS.values()}
# The names before 1.0, which 2.0 will not know: old -> new.
RENAMED = {"%s_%s" % (role, name): OPTIONS[name].variable for role, names in OF_ROLES.items() for name in names}
# The resize that follows a preparation has the same window, which is written down when the preparation begins.
_OLD_OF = {"prep_resize": ("resize",)}


def settings_of(role: str, values: Mapping[str, Any]) -> Dict[str, Any]:
    """Setting -> value of those that ``values`` say; an old name, which is about one role, counts before the new one.
    InvalidInput for a wrong one."""
    roles = (role, *_OLD_OF.get(role, ()))
    found = {
        name: variable
        for name, option in OPTIONS.items()
        for variable in (option.variable, *("%s_%s" % (each, name) for each in reversed(roles)))
        if values.get(variable) not in ("", None)
    }
    together(
        [functools.partial(OPTIONS[name].rule.check, values[variable], variable) for name, variable in found.items()]
    )
    return {name: number(values[variable]) for name, variable in found.items()}
