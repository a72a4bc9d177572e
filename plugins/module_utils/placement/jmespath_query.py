# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A query in JMESPath over documents of one form, checked before any document is read.

JMESPath gives null for a key that is not there, and null != 'active' holds: a misspelled key would select everything. So each
key must be one of the form's, and what is compared must be of one type. A form is an example document: what is empty in it,
{} or None, may have any keys and values.
"""

from __future__ import annotations

import functools
import json
from typing import Any, Dict, Iterable, Iterator, List, Set

from ..model import host_hints
from ..model.errors import BerthError, InvalidInput, shortened
from ..model.messages import Document
from ..model.unknown_names import did_you_mean

try:
    import jmespath
    from jmespath.exceptions import JMESPathError
    from jmespath.functions import Functions
except ImportError:
    jmespath = None  # type: ignore[assignment]

REQUIREMENT = "jmespath>=1.0,<2"  # requirements.txt says the same
# By what JMESPath says of a query: what was probably meant.
MEANT = {"Unknown token '='": "Equal is written ==", "(NUMBER)": "A number is written in backticks, `8`"}
SCALARS = (str, bool, (int, float))
LOGIC = ("or_expression", "and_expression", "not_expression")
PROJECTIONS = ("projection", "filter_projection", "value_projection")
# The other parts of these are about what the first gives.
FROM_THE_FIRST = (*PROJECTIONS, "subexpression", "pipe", "index_expression", "flatten")


class QueryLibraryMissing(BerthError):
    """The controller lacks the Python package jmespath, which queries need. No host was asked and nothing was changed."""


class Query:
    """``text``: the query; ``field``: the variable that has it, for errors. Raises InvalidInput or QueryLibraryMissing."""

    def __init__(self, text: Any, field: str, form: Document) -> None:
        if jmespath is None:
            raise QueryLibraryMissing(
                "%s is a query, and the Python package jmespath is not installed on the controller" % field,
                hint=host_hints.install_on_controller(REQUIREMENT),
            )
        self.text, self.field = text, field
        self.names: Set[str] = set()  # the keys of the document that it reads
        self._form = form
        self._parsed = self._parse()
        self._of(self._parsed.parsed, form)
        if not self.names:
            raise self._fault("a query that asks for at least one of %s" % ", ".join(form))
        self._check_condition(self._parsed.parsed)

    def holds(self, document: Document) -> bool:
        """Whether the document satisfies it: its result is not false, null or empty. Raises InvalidInput."""
        try:
            found = self._parsed.search(document)
        except (JMESPathError, TypeError) as error:
            raise self._fault("a query that can be evaluated: %s" % error) from None
        if isinstance(found, (int, float)) and not isinstance(found, bool):
            raise self._fault("a comparison of the number, such as length(volumes) > `0`")
        if isinstance(found, dict):
            raise self._fault("a query for a part of it, such as flavor.vcpus > `2`")
        return bool(found)

    def _check_condition(self, node: Dict[str, Any]) -> None:
        """Refuse a part that holds whatever a document has, such as the second of state=='stopped' || 'error'."""
        if node["type"] in LOGIC:
            for part in node["children"]:
                self._check_condition(part)
        elif node["type"] in ("literal", "multi_select_list", "multi_select_dict"):
            raise self._fault("a query whose parts may be false, such as state=='active' || state=='error'")

    def values(self, document: Document) -> Dict[str, Any]:
        """The texts and numbers of the document that the query asks for, by their paths."""
        found = {".".join(path): functools.reduce(_get, path, document) for path in _paths(self._parsed.parsed)}
        return {path: value for path, value in found.items() if not isinstance(value, (dict, list))}

    def among(self, documents: Iterable[Document]) -> str:
        """What documents, of which it selects none, have of what it asks for; and that * stands for itself in it."""
        known: Dict[str, Set[str]] = {}
        for document in documents:
            for path, value in self.values(document).items():
                known.setdefault(path, set()).add(repr(value) if isinstance(value, str) else "`%s`" % json.dumps(value))
        told = ["%s is %s" % (path, shortened(sorted(values))) for path, values in known.items()]
        pattern = (
            ". A query has no patterns: starts_with(name, 'web') holds for all that begin so"
            if "*'" in self.text
            else ""
        )
        return (", whose " + ", and ".join(told) if told else "") + pattern

    def _fault(self, rule: str, hint: Any = None) -> InvalidInput:
        return InvalidInput(self.field, self.text, rule, hint=hint)

    def _parse(self) -> Any:
        if not isinstance(self.text, str) or not self.text.strip():
            raise self._fault("a query in JMESPath, such as %s=='...'" % next(iter(self._form)))
        try:
            return jmespath.compile(self.text)
        except RecursionError:
            raise self._fault("a query with fewer levels") from None
        except JMESPathError as error:
            told = getattr(error, "message", None) or str(error).partition("\n")[0]
            at = getattr(error, "lex_position", None)
            where = "" if at is None else " at character %d, %r" % (at + 1, self.text[at : at + 20])
            hint = next((hint for part, hint in MEANT.items() if part in told), None)
            raise self._fault("a query in JMESPath: %s%s" % (told.rstrip(":"), where), hint) from None

    def _of(self, node: Dict[str, Any], here: Any) -> Any:
        """An example of what the node gives where the document has ``here``; None if it may be anything."""
        kind, parts = node["type"], node["children"]
        if kind == "field":
            return self._key(node["value"], here)
        if kind == "literal":
            return node["value"]
        if kind in ("current", "identity"):
            return here
        if kind in ("subexpression", "pipe"):
            return self._of(parts[1], self._of(parts[0], here))
        if kind == "flatten":
            return self._of(parts[0], here)
        if kind in (*PROJECTIONS, "index_expression"):
            return self._of_list(kind, parts, here)
        if kind == "function_expression" and node["value"] not in Functions.FUNCTION_TABLE:
            hint = did_you_mean(node["value"], Functions.FUNCTION_TABLE)
            raise self._fault("a query with functions of JMESPath: there is no %s()" % node["value"], hint)
        given = [self._of(part, here) for part in parts if kind != "expref"]
        if kind == "comparator":
            self._check_types(given)
        return None

    def _of_list(self, kind: str, parts: List[Dict[str, Any]], here: Any) -> Any:
        found = self._of(parts[0], here)
        each = found[0] if isinstance(found, list) and found and kind != "value_projection" else None
        if kind == "index_expression":
            return each if parts[1]["type"] == "index" else found
        for part in parts[1:]:
            self._of(part, each)
        return None

    def _key(self, name: str, here: Any) -> Any:
        if here is self._form:
            self.names.add(name)
        if here is None or here == {}:
            return None
        if not isinstance(here, dict):
            what = "a list" if isinstance(here, list) else "no mapping"
            raise self._fault("a query in which .%s follows a mapping; it follows %s" % (name, what))
        if name not in here:
            raise self._fault(
                "a query over what there is: no key %s, and text is written '%s'" % (name, name),
                did_you_mean(name, here),
            )
        return here[name]

    def _check_types(self, given: List[Any]) -> None:
        types = [next((each for each in SCALARS if isinstance(value, each)), None) for value in given]
        types = [bool if isinstance(value, bool) else kind for value, kind in zip(given, types)]
        if None not in types and types[0] != types[1]:
            written = "a number is written `4096`, text 'active', and `true` and `false` are truth values"
            raise self._fault("a query that compares values of one type, not %r with %r: %s" % (*given, written))


def _paths(node: Dict[str, Any]) -> Iterator[List[str]]:
    """The paths of names that begin at the document."""
    path = _path(node)
    if path:
        yield path
        return
    for part in node["children"][:1] if node["type"] in FROM_THE_FIRST else node["children"]:
        yield from _paths(part)


def _path(node: Dict[str, Any]) -> List[str]:
    if node["type"] == "field":
        return [node["value"]]
    if node["type"] != "subexpression":
        return []
    left, right = map(_path, node["children"])
    return left + right if left and right else []


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


@functools.lru_cache(maxsize=64)
def cached(text: str, field: str, form: Any) -> Query:
    """The same query is compiled once for all documents. ``form``: a function that gives it."""
    return Query(text, field, form())
