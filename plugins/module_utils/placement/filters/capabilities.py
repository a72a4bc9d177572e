# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters that ask what a host can do: its capabilities, what images it runs, and a query over its state."""

from __future__ import annotations

import json
import operator
import re

from ...model.image import canonical_architecture, canonical_hv_type, canonical_vm_mode
from ..base import PASS, Filter, fail

# The operators of extra specs: how a flavor says what a capability must be (Nova: extra_specs_ops).


def _number(compare):
    return lambda value, words: compare(float(value), float(words[0]))


def _text(compare):
    return lambda value, words: compare(value, words[0])


OPERATORS = {
    "=": _number(operator.ge),
    ">=": _number(operator.ge),
    "<=": _number(operator.le),
    "==": _number(operator.eq),
    "!=": _number(operator.ne),
    "s==": _text(operator.eq),
    "s!=": _text(operator.ne),
    "s<": _text(operator.lt),
    "s<=": _text(operator.le),
    "s>": _text(operator.gt),
    "s>=": _text(operator.ge),
    "<in>": lambda value, words: words[0] in value,
    "<all-in>": lambda value, words: all(word in value for word in words),
}


def match(value, wanted):
    """Whether a value satisfies "operator word ..."; without an operator both must be the same text.

    Raise ValueError if an operator for numbers gets something else.
    """
    words = wanted.split()
    if words and words[0] == "<or>":
        return value in words[1::2]
    if not words or words[0] not in OPERATORS:
        return value == wanted
    return len(words) > 1 and OPERATORS[words[0]](value, words[1:])


# The attributes of Nova's HostState: what capabilities and JSON queries may name.
HOST_STATE_ATTRIBUTES = frozenset(
    (
        "host nodename uuid cell_uuid total_usable_ram_mb total_usable_disk_gb disk_mb_used free_ram_mb free_disk_mb "
        "vcpus_total vcpus_used pci_stats numa_topology num_instances num_io_ops failed_builds host_ip hypervisor_type "
        "hypervisor_version hypervisor_hostname cpu_info supported_instances limits metrics aggregates instances "
        "ram_allocation_ratio cpu_allocation_ratio disk_allocation_ratio updated stats service"
    ).split()
)


class ComputeCapabilitiesFilter(Filter):
    """A host passes when every capability that the flavor asks for matches.

    Extra specs ``capabilities:a:b`` name a path: an attribute of HostState, else a key of its stats, then keys of
    objects (JSON text is read as such). An extra spec without a scope counts where it names an attribute or a key of
    stats. What is missing fails. ``hw:maxphysaddr_bits: n`` stands for ``capabilities:cpu_info:maxphysaddr:bits: >= n``.
    Operators: = and >= (both: at least), ==, !=, <= on numbers; s==, s!=, s<, s<=, s>, s>= on text; <in> part of the
    text; <all-in> all words are part of it; <or> a <or> b one of; none: the same text.
    Source: nova.scheduler.filters.compute_capabilities_filter.ComputeCapabilitiesFilter.
    """

    run_filter_once_per_request = True

    def about(self, spec):
        return None if spec.flavor.extra_specs else ()

    def check(self, host_state, spec):
        for key, wanted in self._wanted(spec.flavor.extra_specs):
            path = key.split(":")
            if len(path) == 1:
                if key not in HOST_STATE_ATTRIBUTES and key not in host_state.stats:
                    continue
            elif path[0] != "capabilities":
                continue
            else:
                path = path[1:]
            have = capability(host_state, path)
            name = ":".join(path)
            if have is None:
                return fail("has no capability %s" % name, capability=name, wanted=wanted)
            if not match(str(have), wanted):
                return fail(
                    "%s is %s, wanted %s" % (name, have, wanted), capability=name, wanted=wanted, have=str(have)
                )
        return PASS

    @staticmethod
    def _wanted(extra_specs_of_flavor):
        wanted = dict(extra_specs_of_flavor)
        bits = wanted.pop("hw:maxphysaddr_bits", None)
        if bits is not None:
            wanted["capabilities:cpu_info:maxphysaddr:bits"] = ">= " + bits
        return wanted.items()


def capability(host_state, path):
    """The value at a path of names that begins at the host state, or None."""
    if path[0] == "service" and len(path) > 1:
        return None  # Nova's service is no plain dict: nothing in it is found
    value_here = host_state
    for number, name in enumerate(path):
        if isinstance(value_here, str):
            try:
                value_here = json.loads(value_here)
            except ValueError:
                return None
        if isinstance(value_here, dict):
            value_here = value_here.get(name)
        elif number == 0:
            value = getattr(value_here, name, None) if name in HOST_STATE_ATTRIBUTES else None
            value_here = value_here.stats.get(name) if value is None else value
        else:
            value_here = getattr(value_here, name, None) if not name.startswith("_") else None
        if value_here is None:
            return None
    return json.dumps(value_here) if path == ["cpu_info"] and not isinstance(value_here, str) else value_here


# A version as Python's packages have it (PEP 440), without epoch: 8.2.1, 8.2rc1, 8.2.post1, 8.2.dev3.
_TERM = re.compile(
    r"\s*(<=|>=|<|>|!=|==)\s*v?(\d+(?:\.\d+)*)"
    r"([-_.]?(?:a|b|c|rc|alpha|beta|pre|preview)[-_.]?\d*)?"
    r"([-_.]?(?:post|rev|r)[-_.]?\d*|-\d+)?([-_.]?dev[-_.]?\d*)?\s*\Z",
    re.ASCII | re.IGNORECASE,
)


class ImagePropertiesFilter(Filter):
    """A host passes when it can run what the image's properties ask for.

    One of its supported_instances [architecture, hypervisor type, vm mode] must contain all that are given of
    ``hw_architecture``, ``img_hv_type`` and ``hw_vm_mode``; then also ``img_hv_requested_version`` (such as
    ">=6.2,<9.0") must hold for its hypervisor version, and its CPU must have ``hw_maxphysaddr_bits`` where it says how
    many it has. An image that asks for none of the three passes everywhere.
    Options: image_properties_default_architecture (none): the architecture of images that name none.
    Source: nova.scheduler.filters.image_props_filter.ImagePropertiesFilter.
    """

    run_filter_once_per_request = True
    reads = ("supported_instances", "hypervisor_version", "cpu_info")
    run_on_rebuild = True

    def about(self, spec):
        return None if self._wanted(spec.image_props) else ()

    def check(self, host_state, spec):
        props = spec.image_props
        wanted = self._wanted(props)
        if not wanted:
            return PASS
        if not any(all(name in supported for name in wanted) for supported in host_state.supported_instances):
            return fail("cannot run %s" % "/".join(wanted), wanted=wanted, supported=host_state.supported_instances)
        version = props.get("img_hv_requested_version")
        if version and host_state.hypervisor_version and not version_holds(version, host_state.hypervisor_version):
            return fail("hypervisor version %s is not %s" % (host_state.hypervisor_version, version), wanted=version)
        bits = props.get("hw_maxphysaddr_bits")
        have = host_state.capabilities.get("maxphysaddr", {}).get("bits") if bits else None
        if have and have < bits:
            return fail("has %s physical address bits, needs %s" % (have, bits), wanted=bits, have=have)
        return PASS

    def _wanted(self, props):
        wanted = (
            canonical_architecture(props.get("hw_architecture", self.options["image_properties_default_architecture"])),
            canonical_hv_type(props.get("img_hv_type")),
            canonical_vm_mode(props.get("hw_vm_mode")),
        )
        return [name for name in wanted if name]


def version_holds(predicate, version):
    """Whether a version 8002001 (8.2.1) satisfies terms such as ">=6.2,<9.0"; ValueError for invalid terms."""
    numbers = []
    while version:
        version, part = divmod(version, 1000)
        numbers.insert(0, part)
    for text in predicate.split(","):
        match = _TERM.match(text)
        if not match:
            raise ValueError("%r is not a comparison with a version" % text)
        operator, release, before, after, in_work = match.groups()
        other = [int(part) for part in release.split(".")]
        width = max(len(numbers), len(other))
        have, want = [parts + [0] * (width - len(parts)) for parts in (numbers, other)]
        # The host's version is a release: it is above what comes before that one, and below what comes after.
        want.append(-1 if before else 1 if after else -1 if in_work else 0)
        have.append(0)
        if not {
            "<": have < want,
            "<=": have <= want,
            ">": have > want,
            ">=": have >= want,
            "==": have == want,
            "!=": have != want,
        }[operator]:
            return False
    return True


_COMPARE = {"=": operator.eq, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}


class JsonFilter(Filter):
    """A host passes when the hint ``query`` holds: JSON in prefix form, ["and", [">=", "$free_ram_mb", 1024], ...].

    Operators: = < > <= >= (the first with all others), in (the first is one of the others), and, or, not.
    ``$name.key`` is an attribute of HostState, then keys; one that is not there is left out of the arguments, and a
    comparison of fewer than two arguments fails. As in Nova, ``not`` gives a list, which counts as true inside ``and``
    and ``or`` whatever it holds.
    Source: nova.scheduler.filters.json_filter.JsonFilter.
    """

    def about(self, spec):
        return None if spec.get_scheduler_hint("query") else ()

    def check(self, host_state, spec):
        query = spec.get_scheduler_hint("query")
        if not query:
            return PASS
        parsed = json.loads(query) if isinstance(query, str) else query
        result = _evaluate(parsed, host_state)
        if any(result) if isinstance(result, list) else result:
            return PASS
        return fail("does not satisfy %s" % json.dumps(parsed), query=parsed)


def _evaluate(query, host_state):
    if not query:
        return True
    command, arguments = query[0], []
    for argument in query[1:]:
        if isinstance(argument, list):
            argument = _evaluate(argument, host_state)
        elif isinstance(argument, str):
            argument = _value(argument, host_state)
        if argument is not None:
            arguments.append(argument)
    if command == "and":
        return all(arguments)
    if command == "or":
        return any(arguments)
    if command == "not":
        return [not argument for argument in arguments]
    if command != "in" and command not in _COMPARE:
        raise ValueError("JsonFilter has no operator %r" % (command,))
    if len(arguments) < 2:
        return False
    if command == "in":
        return arguments[0] in arguments[1:]
    # Each is compared, so that what cannot be compared raises wherever it stands.
    return False not in [_COMPARE[command](arguments[0], other) for other in arguments[1:]]


def _value(text, host_state):
    if not text:
        return None
    if not text.startswith("$"):
        return text
    names = text[1:].split(".")
    found = getattr(host_state, names[0], None) if names[0] in HOST_STATE_ATTRIBUTES else None
    for name in names[1:]:
        if found is None:
            return None
        found = found.get(name)
    return found
