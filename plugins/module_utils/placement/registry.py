# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds filters and weighers by name.

A name is a class name of this collection (``ComputeFilter``, ``RAMWeigher``; ``berth.kvm.`` or Nova's path before it is
allowed), or the fully qualified name ``ns.coll.name`` of a module in any other collection:

    ansible_collections.<ns>.<coll>.plugins.module_utils.placement.filters.<name>    for a filter
    ansible_collections.<ns>.<coll>.plugins.module_utils.placement.weighers.<name>   for a weigher

which defines exactly one subclass of Filter or Weigher. A class may be given instead of its name.
"""

from __future__ import annotations

import functools
import importlib
import os

from ..model.errors import BerthError
from ..model.unknown_names import did_you_mean
from .base import RAISED, Filter, Weigher
from .errors import FilterRemoved, PluginFailed, SchedulerHostFilterNotFound, SchedulerWeigherNotFound

FIELDS = {"filters": "enabled_filters", "weighers": "weight_classes"}

# Filters that Nova had and that are useless without the service they asked.
REMOVED = {
    "TrustedFilter": "it asked an attestation service that nobody runs any more; Nova removed it in 17.0.0 (Queens)",
    "TrustedComputeFilter": "it asked an attestation service that nobody runs any more; Nova removed it in 17.0.0 (Queens)",
}

ALIASES = {"dump": "DumpFilter"}  # as the how-to calls it
ALL_FILTERS = "all_filters"

_cache = {}


def builtin(kind):
    """{class name: class} of the filters or weighers of this collection."""
    if kind not in _cache:
        _cache[kind] = {class_.__name__: class_ for file in _files(kind) for class_ in _classes_of_file(kind, file)}
    return _cache[kind]


@functools.lru_cache(maxsize=None)
def _own(name, kind):
    """Return the class of this collection with that name, or None. Only the file that defines it is imported: Ansible
    compiles each file anew in each run."""
    for file in _files(kind):
        with open(os.path.join(_directory(kind), file + ".py"), encoding="utf-8") as source:
            found = "\nclass %s(" % name in source.read()
        if found:
            return next((class_ for class_ in _classes_of_file(kind, file) if class_.__name__ == name), None)
    return None


def _directory(kind):
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), kind)


def _files(kind):
    """Return the names of the files of filters or weighers, without their ending."""
    return sorted(name[:-3] for name in os.listdir(_directory(kind)) if name.endswith(".py"))


def _classes_of_file(kind, file):
    module = importlib.import_module("%s.%s.%s" % (__package__, kind, file))
    return _classes(module, Filter if kind == "filters" else Weigher)


def _classes(module, base):
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, base)
        and value.__module__ == module.__name__
        and not value.__name__.startswith("_")
    ]


def _load(name, kind):
    """Return the class of a name, or None; imports nothing before ``name`` is checked to be dotted words."""
    base = Filter if kind == "filters" else Weigher
    if isinstance(name, type) and issubclass(name, base):
        return name
    parts = str(name).split(".")
    if _is_own(parts):
        return _own(ALIASES.get(parts[-1], parts[-1]), kind)
    if len(parts) < 3 or not all(part.isidentifier() for part in parts):
        return None
    path = _module(kind, parts)
    try:
        module = importlib.import_module(path)
    except ImportError as error:
        if not error.name or path == error.name or path.startswith(error.name + "."):
            return None
        raise _failed(kind, name, error)
    except RAISED as error:
        raise _failed(kind, name, error)
    classes_found = _classes(module, base)
    if len(classes_found) != 1:
        classes = ", ".join(class_.__name__ for class_ in classes_found) or "none"
        raise PluginFailed(
            FIELDS[kind], name, "a module that defines one subclass of %s; it has %s" % (base.__name__, classes)
        )
    return classes_found[0]


def _is_own(parts):
    """Whether a name is one of this collection: a class name, alone or after Nova's path or berth.kvm."""
    return len(parts) == 1 or parts[0] == "nova" or parts[:2] == ["berth", "kvm"]


def _module(kind, parts):
    """Return the module that a full name ns.coll.name stands for."""
    place = "ansible_collections.%s.%s.plugins.module_utils.placement.%s" % (parts[0], parts[1], kind)
    return ".".join([place, *parts[2:]])


def _hint(kind, name):
    parts = name.split(".")
    if len(parts) < 3 or _is_own(parts):
        return "%s: %s" % (name, did_you_mean(name, builtin(kind)))
    return "%s: there is no %s.py in the collections path." % (name, _module(kind, parts).replace(".", "/"))


def _failed(kind, name, error):
    return PluginFailed(FIELDS[kind], name, "a plugin that works; it raised %s: %s" % (type(error).__name__, error))


def make(kind, class_, options):
    """Return an instance of a filter or weigher class; PluginFailed if the class itself is faulty."""
    try:
        plugin = class_(options)
        if kind == "weighers":
            plugin.configured()
    except BerthError:
        raise
    except RAISED as error:
        raise _failed(kind, class_.__name__, error)
    return plugin


def declared_options(kind, class_):
    """{name: default} of the options that a class reads."""
    if not isinstance(class_.options, dict):
        raise PluginFailed(FIELDS[kind], class_.__name__, "options as an object of names and defaults")
    return class_.options


def _check_found(error, kind, bad, rule, field=None):
    """Raise one error for all names that are unknown."""
    if bad:
        hint = " ".join(_hint(kind, name) for name in bad)
        raise error(field or FIELDS[kind], ", ".join(bad), rule, hint=hint, names=bad)


def find_filters(names):
    """Return filter classes in the order of ``names``; one SchedulerHostFilterNotFound lists all unknown names."""
    found, bad = [], []
    for name in names:
        short = str(name).rsplit(".", 1)[-1]
        if short in REMOVED:
            raise FilterRemoved(
                "enabled_filters", name, "a filter that can work here", hint="%s: %s" % (short, REMOVED[short])
            )
        filter_class = _load(name, "filters")
        if filter_class is None:
            bad.append(str(name))
        else:
            found.append(filter_class)
    _check_found(SchedulerHostFilterNotFound, "filters", bad, "names of filters")
    return found


def check_available(names, enabled):
    """Raise SchedulerHostFilterNotFound, as Nova does, for ``names`` (available_filters) that are no filters, and for
    ``enabled`` classes that are not among them. all_filters stands for every filter."""
    others = [name for name in names if str(name).rsplit(".", 1)[-1] != ALL_FILTERS]
    available = [_load(name, "filters") for name in others]
    bad = [str(name) for name, class_ in zip(others, available) if class_ is None]
    rule = "names of filters, or " + ALL_FILTERS
    _check_found(SchedulerHostFilterNotFound, "filters", bad, rule, "available_filters")
    missing = [class_.__name__ for class_ in enabled if class_ not in available]
    if missing and len(others) == len(names):
        rule, text = "filters that are among available_filters", ", ".join(missing)
        raise SchedulerHostFilterNotFound(FIELDS["filters"], text, rule, names=missing)


def find_weighers(names):
    """Return weigher classes, sorted by class name so that sums do not depend on the order of files."""
    found, bad = {}, []
    for name in names:
        if str(name).rsplit(".", 1)[-1] == "all_weighers":
            for weigher_class in builtin("weighers").values():
                if weigher_class.default:
                    found[weigher_class.__name__] = weigher_class
            continue
        weigher_class = _load(name, "weighers")
        if weigher_class is None:
            bad.append(str(name))
        else:
            found[weigher_class.__name__] = weigher_class
    _check_found(SchedulerWeigherNotFound, "weighers", bad, "names of weighers, or all_weighers")
    return [found[name] for name in sorted(found)]
