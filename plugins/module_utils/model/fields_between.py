# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks between the fields of a mapping, told together with what is wrong with others of its fields."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Collection, Mapping, Sequence, Tuple

from .errors import BerthError, together
from .messages import Document
from .schema import Check, Fields

Between = Tuple[Collection[str], Callable[[Document, str], object]]  # the fields that it is about, the check


class FieldsBetween(Fields):
    """``between``: checks of the cleaned mapping and its own field, each made where none of its fields is wrong by itself."""

    def __init__(self, fields: Mapping[str, Check], defaults: Mapping[str, Any], between: Sequence[Between]) -> None:
        super().__init__(fields, defaults)
        self.between = between

    def check(self, value: Any, field: str) -> Document:
        sound: Document = {}
        for name in self.fields if isinstance(value, dict) else ():
            with contextlib.suppress(BerthError):
                sound[name] = self._field(name, value.get(name), field)
        checks = (functools.partial(check, sound, field) for about, check in self.between if sound.keys() >= set(about))
        found: Document = together([functools.partial(super().check, value, field), *checks])[0]
        return found
