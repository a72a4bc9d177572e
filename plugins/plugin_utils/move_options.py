# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the roles that move instances, such as resize_bandwidth, and what each may be.

An empty text is a survey's question without an answer: the default.
"""

from __future__ import annotations

from typing import Any, Union

from ..module_utils.model.schema import OneOf, Whole
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

    def __init__(self, item: Union[OneOf, Whole]) -> None:
        self.item, self.rule = item, item.rule

    def check(self, value: Any, field: str) -> None:
        if value not in ("", None):
            self.item.check(number(value), field)


SETTINGS = {
    "bandwidth": Option(Whole(0, 1 << 20, "MiB/s")),
    "confirm_window": Option(Whole(0, 366 * DAY, "seconds")),
    "copy_while_running": Switch(),
    "max_pause": Option(Whole(0, DAY, "seconds")),
    "permit_auto_converge": Switch(),
    "stop_timeout": Option(Whole(0, DAY, "seconds")),
    "timeout": Option(Whole(0, 7 * DAY, "seconds")),
    "timeout_action": Option(OneOf("abort", "force_complete")),
    "tls": Switch(),
}
_COLD = ("bandwidth", "confirm_window", "copy_while_running", "stop_timeout")
OF_ROLES = {
    "cold_migrate": _COLD,
    "live_migrate": ("bandwidth", "max_pause", "permit_auto_converge", "timeout", "timeout_action", "tls"),
    "prep_resize": ("confirm_window",),
    "resize": _COLD,
    "revert_resize": ("stop_timeout",),
}
CHECKED = {"%s_%s" % (role, name): SETTINGS[name] for role, names in OF_ROLES.items() for name in names}
