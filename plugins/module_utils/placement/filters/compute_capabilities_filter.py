# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ComputeCapabilitiesFilter."""

from __future__ import annotations

import json

from .. import extra_specs
from ..base import PASS, Filter, fail
from ..nova_names import HOST_STATE_ATTRIBUTES


class ComputeCapabilitiesFilter(Filter):
    """A host passes when every capability that the flavor asks for matches.

    Extra specs ``capabilities:a:b`` name a path: an attribute of HostState, else a key of its stats, then keys of
    objects (JSON text is read as such). An extra spec without a scope counts where it names an attribute or a key of
    stats. What is missing fails. ``hw:maxphysaddr_bits: n`` stands for ``capabilities:cpu_info:maxphysaddr:bits: >= n``.
    Operators: = and >= (both: at least), ==, !=, <= on numbers; s==, s!=, s<, s<=, s>, s>= on text; <in> part of the
    text; <all-in> all words are part of it; <or> a <or> b one of; none: the same text.
    Options: none. Aggregate metadata: none. Runs once per request.
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
            if not extra_specs.match(str(have), wanted):
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
