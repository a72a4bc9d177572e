# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lies that fit the schema: what else a host could say in each field of a reply, read from the checks of the schema itself.

The checks of model/shape.py are functions, and what they were made from is in their closures: that is read here.
"""

from __future__ import annotations

import contextlib
import itertools
import types

from plain_data import ABSENT, changed, texts

from ansible_collections.berth.kvm.plugins.module_utils.model import shape
from ansible_collections.berth.kvm.plugins.module_utils.model.reply_shapes import REPLIES

DEEPEST = 24
SAMPLES = {}
WHOLE = (shape.flag, shape.generation, shape.cpus)  # their values are made below as a whole
MOST_SAMPLES = 12
MOST_ITEMS = 3  # of a list that are lied about, one after the other
NUMBERS = (0, 1, 7, 1 << 20, (1 << 39) - 1, 1 << 39)


def made_from(check):
    """What a check of shape.py was made from, by the names there."""
    cells = zip(check.__code__.co_freevars, check.__closure__ or ())
    return {name: cell.cell_contents for name, cell in cells}


def kind(check):
    return "object" if isinstance(check, shape.Object) else check.__qualname__.rpartition(".")[2]


def is_made(check):
    """Whether it is a check that shape.py made."""
    return isinstance(check, types.FunctionType) and "<locals>.check_" in check.__qualname__


def wrapped(check):
    """The checks that a function of ours calls besides its own rule, such as ``_instance`` for ``_INSTANCE``."""
    if not isinstance(check, types.FunctionType) or is_made(check) or check in WHOLE:
        return []
    named = [check.__globals__.get(name) for name in check.__code__.co_names]
    # of a module that is named like a function here, the function is not meant
    return [
        part
        for part in named
        if part is not check and (isinstance(part, shape.Object) or is_made(part) or is_own(part))
    ]


def is_own(check):
    """Whether it is a function from a value to its checked copy, such as ``request``."""
    own = isinstance(check, types.FunctionType) and check.__code__.co_varnames[:1] in (("value",), ("document",))
    return (
        own
        and check.__module__.startswith(shape.__name__.rpartition(".")[0])
        and check.__annotations__.get("return") != "None"
    )


def inner(check):
    """The checks of the parts: [(name of the part, its check)]; the items of a list are "*", the values of a map "**"."""
    if isinstance(check, shape.Object):
        return list(check.fields.items())
    parts = made_from(check) if isinstance(check, types.FunctionType) else {}
    found = [(None, parts["check_value"])] if kind(check) == "check_optional" else []
    found += [("*", parts["check_item"])] if kind(check) == "check_list" else []
    found += [("**", parts["check_value"])] if kind(check) == "check_map" else []
    return found + [(None, each) for each in wrapped(check)]


# ---- what else a field could say -------------------------------------------------------------------------------------


def others(check, value, words):
    """Values for one field, without those of its parts; ABSENT where it need not be there."""
    name, parts = kind(check), made_from(check) if isinstance(check, types.FunctionType) else {}
    if name in ("check_whole", "check_number"):
        low, high = parts["low"], parts["high"]
        near = (value - 1, value + 1) if isinstance(value, (int, float)) else ()
        return [low, high, *near, *NUMBERS]
    if check is shape.flag:
        return [not value]
    if name == "check_choice":
        return list(parts["choices"])
    if check is shape.generation:
        epoch, count = value or (1, 1)
        near = ([0, 0], [epoch, count + 1], [epoch + 1, 0], [max(epoch - 1, 0), 0])
        return [*near, [(1 << 39) - 1, 7], [1 << 39, 0], [1 << 40, 1 << 40]]
    if check is shape.cpus:
        return [[], [0], [4095]]
    if name in ("check_list", "check_words"):
        return [[], *([value[:1], value + value[:1]] if value else ())] + (
            [[word] for word in words] if name == "check_words" else []
        )
    if name in ("check_map", "check_mapping"):
        return [{}]
    if name == "check_optional":
        return [None]
    return list(words)


def lies(check, value, words, at=(), depth=0):
    """(path, value) of everything that the schema may let a host say instead of this reply; not all of it is valid."""
    if depth > DEEPEST:
        return
    own = [] if isinstance(check, shape.Object) or wrapped(check) else others(check, value, words)
    for other in own:
        if other != value or type(other) is not type(value):
            yield at, other
    for name, part in inner(check):
        if name is None:
            yield from (
                ((at, other) for other in samples(part, words))
                if value is None
                else lies(part, value, words, at, depth + 1)
            )
        elif name == "*":
            for number, item in enumerate((value or ())[:MOST_ITEMS]):
                yield from lies(part, item, words, (*at, number), depth + 1)
        elif name == "**":
            for key, item in list((value or {}).items())[:MOST_ITEMS]:
                yield from lies(part, item, words, (*at, key), depth + 1)
                yield from ((at, {**{k: v for k, v in value.items() if k != key}, word: item}) for word in words)
        elif isinstance(value, dict) and name in value:
            if name in check.optional:
                yield (*at, name), ABSENT
            yield from lies(part, value[name], words, (*at, name), depth + 1)
        elif isinstance(value, dict):
            yield from (((*at, name), other) for other in samples(part, words) if other is not None)


def samples(check, words, depth=0):
    """A few values that the check lets through, for a field in which the honest reply has nothing."""
    key = id(check), tuple(words)
    if key not in SAMPLES:
        SAMPLES[key] = sampled(check, words, depth) if depth < DEEPEST else []
    return SAMPLES[key]


def sampled(check, words, depth):
    if isinstance(check, shape.Object):
        parts = {name: samples(part, words, depth + 1) for name, part in check.fields.items()}
        whole = {name: found[0] for name, found in parts.items() if found}
        return passed(check, [whole, {name: part for name, part in whole.items() if name not in check.optional}])
    found = []
    for name, part in inner(check):
        each = samples(part, words, depth + 1)
        found += (
            [[one] for one in each]
            if name == "*"
            else [{word: each[0]} for word in words if each]
            if name == "**"
            else each
        )
    own = [] if wrapped(check) else others(check, None, words)
    return passed(check, [*found, *own])[:MOST_SAMPLES]


def passed(check, values):
    """Those that it lets through, each once."""
    found = []
    for value in values:
        with contextlib.suppress(shape.Fault, KeyError, TypeError, AttributeError):
            check(value)
            found += [] if value in found else [value]
    return found


# ---- another instance, another host: all that names it together -------------------------------------------------------


def renamed(value, names):
    """A copy in which these words stand for one another, in keys too."""
    if isinstance(value, dict):
        return {renamed(key, names): renamed(part, names) for key, part in value.items()}
    if isinstance(value, list):
        return [renamed(part, names) for part in value]
    return names.get(value, value) if isinstance(value, str) else value


def counted(value, numbers):
    """A copy in which every generation is this one."""
    if isinstance(value, dict):
        return {
            key: list(numbers) if key in ("generation", "gone", "left") and part else counted(part, numbers)
            for key, part in value.items()
        }
    return [counted(part, numbers) for part in value] if isinstance(value, list) else value


GENERATIONS = (None, [0, 1], [9, 0], [(1 << 39) - 1, 7])


def identity_lies(part, entities, at=()):
    """(path, value): each part of the reply about another entity than it is, instead of it or beside it, and with each of
    these generations. ``entities``: what names one, in the same order: (uuid, name)."""
    items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, item in items:
        yield from identity_lies(item, entities, (*at, key))
    if not isinstance(part, list):
        return
    for number, item in enumerate(part):
        own = [entity for entity in entities if isinstance(item, (dict, list)) and entity[0] in set(texts(item))]
        for entity in own:
            for other in entities:
                if other == entity:
                    continue
                told = renamed(item, {**dict(zip(entity, other)), **dict(zip(other, entity))})
                for numbers in GENERATIONS:
                    each = told if numbers is None else counted(told, numbers)
                    yield (*at, number), each
                    yield at, [*part, each]
        if own:
            for numbers in GENERATIONS[1:]:
                yield (*at, number), counted(item, numbers)


def all_lies(module, said, words, kinds):
    """{field: [(path, value)]}: the lies in this reply by the field that they are about; one that the schema does not let
    through is left in. ``kinds``: of instances, hosts and volumes, what names each."""
    found = {}
    of_names = [identity_lies(said, entities) for entities in kinds]
    for at, put in itertools.chain(lies(REPLIES[module], said, words), *of_names):
        field = tuple("*" if isinstance(key, int) or "-" in key else key for key in at)
        found.setdefault(field, []).append((at, put))
    return found


def told(reply, lie):
    """The reply with the lie in it; the number of instances is that of those listed again."""
    made = changed(reply, *lie)
    at = ("ansible_facts", "berth_host", "num_instances")
    if lie[0][:2] != at[:2] or lie[0][2:3] != ("instances",):
        return made
    return changed(made, at, len(made["ansible_facts"]["berth_host"]["instances"]))
