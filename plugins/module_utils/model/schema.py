# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of plain data against a description of its shape; the first fault is an InvalidInput that names the field.

A check is an object with ``check(value, field) -> cleaned value``. Cleaned values are new and plain.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Collection, Dict, Iterator, List, Mapping, Optional, Protocol, Tuple

from . import input_hints
from .errors import BerthError, InvalidInput, joined, together
from .messages import Document
from .unknown_names import meant, nearest

# Half of a surrogate pair cannot be written anywhere.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_TRUTHS = ("true", "false", "yes", "no", "on", "off")


def structure_as_text(value: Any) -> Optional[str]:
    """The hint for a list or mapping that is text: an INI inventory makes that of what it cannot read."""
    return input_hints.no_structure_in_text() if isinstance(value, str) and value.lstrip()[:1] in ("[", "{") else None


def mapping_as_text(value: Any) -> Optional[str]:
    """The same of a mapping, which people also write as role=web."""
    as_option = isinstance(value, str) and re.match(r"[\w.-]+=", value)
    return input_hints.mapping_with_e() if as_option else structure_as_text(value)


class Check(Protocol):
    """What the classes below have in common."""

    def check(self, value: Any, field: str) -> Any:
        """Return the cleaned value, or raise InvalidInput that names ``field``."""


CUSTOM = r"CUSTOM_[A-Z0-9_]{1,248}"  # a resource class that Placement lets people define


class Whole:
    """A whole number from ``low`` to ``high``."""

    def __init__(self, low: int, high: int, unit: str = "") -> None:
        self.low, self.high = low, high
        self.rule = "a whole number from %d to %d%s" % (low, high, " " + unit if unit else "")

    def check(self, value: Any, field: str) -> int:
        hint = None
        if isinstance(value, str) and re.match(r"-?[0-9]+\Z", value):
            hint = input_hints.remove_quotes()
        if isinstance(value, bool) or not isinstance(value, int) or not self.low <= value <= self.high:
            raise InvalidInput(field, value, self.rule, hint=hint)
        return int(value)


class Flag:
    """true or false."""

    def check(self, value: Any, field: str) -> bool:
        if not isinstance(value, bool):
            hint = input_hints.true_without_quotes() if str(value).lower() in _TRUTHS else None
            raise InvalidInput(field, value, "true or false", hint=hint)
        return value


class Text:
    """Text of at most ``longest`` characters without control characters, matching ``pattern`` where there is one."""

    def __init__(
        self, pattern: Optional[str] = None, rule: Optional[str] = None, longest: int = 255, empty: bool = False
    ) -> None:
        self.pattern = re.compile(pattern, re.ASCII) if pattern else None
        self.longest, self.empty = longest, empty
        self.rule = rule or "text of 1 to %d characters without control characters" % longest

    def check(self, value: Any, field: str) -> str:
        if isinstance(value, (bool, int, float)):
            raise InvalidInput(field, value, self.rule, hint=input_hints.add_quotes())
        if not isinstance(value, str) or len(value) > self.longest or (not value and not self.empty):
            raise InvalidInput(field, value, self.rule)
        if _CONTROL.search(value) or (self.pattern and not self.pattern.match(value)):
            raise InvalidInput(field, value, self.rule)
        return str(value)


class Word:
    """Text, or a number or truth value that stands for its text (Nova's extra specs and metadata are all text)."""

    def __init__(self, longest: int = 255) -> None:
        self.text = Text(longest=longest, empty=True)

    def check(self, value: Any, field: str) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (int, float)):
            return str(value)
        return self.text.check(value, field)


class OneOf:
    """One of the words ``choices``. ``hints``: what to do about other words."""

    def __init__(self, *choices: str, hints: Optional[Mapping[str, str]] = None) -> None:
        self.choices, self.hints = choices, hints or {}
        self.rule = "one of " + ", ".join(choices)

    def check(self, value: Any, field: str) -> str:
        if value not in self.choices:
            near = nearest(value, self.choices)
            raise InvalidInput(field, value, self.rule, hint=self.hints.get(str(value)) or near and meant(near))
        return str(value)


class OrNull:
    """What ``item`` takes, or null."""

    def __init__(self, item: Check) -> None:
        self.item = item

    def check(self, value: Any, field: str) -> Any:
        return None if value is None else self.item.check(value, field)


class Secret:
    """What ``item`` takes; errors do not show the value, except of fields whose last part is in ``shown``."""

    def __init__(self, item: Check, shown: Collection[str] = ()) -> None:
        self.item, self.shown = item, shown
        self.rule = getattr(item, "rule", None)

    def check(self, value: Any, field: str) -> Any:
        try:
            return self.item.check(value, field)
        except BerthError as error:
            raise joined([self._hidden(fault) for fault in (error, *error.also)]) from None

    def _hidden(self, fault: BerthError) -> BerthError:
        field = fault.field or ""
        if field.rpartition(".")[2] in self.shown or fault.value in (None, "None"):  # nothing, for what is absent
            fault.also = []
            return fault
        return InvalidInput(field, "<not shown>", fault.rule, hint=fault.hint)


class ListOf:
    """A list, each item of which passes ``item``; with ``single`` a bare item stands for a list of it."""

    def __init__(self, item: Check, single: bool = False, longest: int = 10000) -> None:
        self.item, self.single, self.longest = item, single, longest

    def check(self, value: Any, field: str) -> List[Any]:
        if self.single and not isinstance(value, (list, tuple)):
            try:
                return [self.item.check(value, field)]
            except InvalidInput as error:
                is_several = isinstance(value, str) and "," in value
                error.hint = error.hint or (input_hints.list_with_e() if is_several else None)
                raise
        if not isinstance(value, (list, tuple)) or len(value) > self.longest:
            of_item = getattr(self.item, "rule", "")
            rule = "a list of at most %d items" % self.longest + (", each %s" % of_item if of_item else "")
            raise InvalidInput(field, value, rule, hint=structure_as_text(value))
        return together(
            functools.partial(self.item.check, item, "%s[%d]" % (field, at)) for at, item in enumerate(value)
        )


class MapOf:
    """A mapping of names to values that pass ``value``."""

    def __init__(self, value: Check, key: Optional[Check] = None) -> None:
        self.key, self.value = key or Text(r"[^\t\n]*\Z"), value

    def check(self, value: Any, field: str) -> Document:
        if not isinstance(value, dict):
            raise InvalidInput(field, value, "a mapping of names to values", hint=mapping_as_text(value))
        names = together(functools.partial(self.key.check, name, "%s: name" % field) for name in value)
        values = together(
            functools.partial(self.value.check, part, "%s.%s" % (field, name)) for name, part in value.items()
        )
        return dict(zip(names, values))


class Fields:
    """A mapping with the fields ``fields`` (name -> check) and no others.

    ``defaults`` fill what is absent; a field without a default is required; null counts as absent.
    """

    def __init__(self, fields: Mapping[str, Check], defaults: Optional[Mapping[str, Any]] = None) -> None:
        self.fields, self.defaults = fields, defaults or {}
        self.rule = "a mapping with the fields %s" % ", ".join(fields)

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def check(self, value: Any, field: str) -> Document:
        if not isinstance(value, dict):
            raise InvalidInput(field, value, self.rule, hint=mapping_as_text(value))
        unknown = [name for name in value if name not in self.fields]
        told = {nearest(name, self.fields) for name in unknown}  # of what was meant nobody says again that it lacks
        names = [*unknown, *(name for name in self.fields if name not in told or value.get(name) is not None)]
        values = together(functools.partial(self._field, name, value.get(name), field) for name in names)
        return dict(zip(names, values))

    def _field(self, name: str, value: Any, field: str) -> Any:
        path = "%s.%s" % (field, name)
        if name not in self.fields:
            raise _no_such_field(path, name, self.fields)
        if value is not None:
            return self.fields[name].check(value, path)
        if name not in self.defaults:
            raise InvalidInput(path, value, "this field is required", hint=input_hints.add_field(path))
        default = self.defaults[name]
        return default.copy() if isinstance(default, (dict, list)) else default


def _no_such_field(path: str, name: str, fields: Collection[str]) -> InvalidInput:
    """Its value is not shown: a misspelt name may be that of a secret."""
    near = nearest(name, fields)
    error = InvalidInput(path, None, None, hint=meant(near) if near else "Known: " + ", ".join(sorted(fields)))
    error.message, error.value = "%s: there is no such field" % path, None
    return error


class Named:
    """Things by name: a mapping of names to ``thing``, or a list of things that carry their ``name``.

    The result is a mapping in which each thing carries its ``name``.
    """

    def __init__(self, thing: Check, name: Optional[Text] = None) -> None:
        self.thing = thing
        self.name = name or Text(
            r"[A-Za-z0-9][A-Za-z0-9._-]*\Z", "a name of a-z, A-Z, 0-9, '.', '_' and '-', at most 63 long", longest=63
        )

    def check(self, value: Any, field: str) -> Dict[str, Document]:
        named: Dict[str, Document] = {}
        together(functools.partial(self._add, named, *each, field) for each in self._pairs(value, field))
        return named

    def _add(self, named: Dict[str, Document], at: Optional[int], name: Any, thing: Any, field: str) -> None:
        if at is not None and name is None:
            hint = input_hints.name_each(list(getattr(self.thing, "fields", ())))
            raise InvalidInput("%s[%d]" % (field, at), thing, "a mapping with a name", hint=hint)
        path = "%s.%s" % (field, name)

        def new_name() -> str:
            checked = self.name.check(name, "%s: name" % field)
            if checked in named:
                raise InvalidInput(path, checked, "each name once")
            return checked

        checked, document = together([new_name, functools.partial(self.thing.check, thing, path)])
        named[checked] = dict(document, name=checked)

    def _pairs(self, value: Any, field: str) -> Iterator[Tuple[Optional[int], Any, Any]]:
        """Yield (its place in a list, its name, the thing)."""
        if isinstance(value, dict):
            for name, thing in value.items():
                if isinstance(thing, dict) and thing.get("name", name) != name:
                    raise InvalidInput("%s.%s.name" % (field, name), thing["name"], "the name it is under, or none")
                yield None, name, self._without_name(thing)
        elif isinstance(value, (list, tuple)):
            for at, thing in enumerate(value):
                yield at, thing.get("name") if isinstance(thing, dict) else None, self._without_name(thing)
        else:
            rule = "a mapping by name, or a list of mappings with a name"
            raise InvalidInput(field, value, rule, hint=mapping_as_text(value))

    @staticmethod
    def _without_name(thing: Any) -> Any:
        return {key: part for key, part in thing.items() if key != "name"} if isinstance(thing, dict) else thing
