# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base classes of filters and weighers, and the verdict of a filter."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..model.host_state import lowest

# What a plugin of somebody else may raise without ending the run: all but what a person does.
RAISED = (Exception, SystemExit)


class Verdict(NamedTuple):
    """A filter's judgement of a host: whether it passes, why as text, and the numbers behind it (plain JSON values)."""

    passed: bool
    reason: str = ""
    numbers: Any = None


PASS = Verdict(True)


def fail(reason, **numbers):
    return Verdict(False, reason, numbers)


class Filter:
    """A rule that a host passes or fails.

    A subclass defines check(host_state, spec) -> Verdict. It must change nothing, read no clock and no file, and draw
    no random number. ``options`` are the names and defaults of the options it reads from self.options;
    ``run_filter_once_per_request`` says that the verdict does not change between the instances of one request;
    ``run_on_rebuild`` that it also runs for an instance that is only rebuilt in place; ``sets_limits`` that it gives
    passing hosts a limit, host_state.limits[name], which the claim tests again.

    Two optional parts let placement explain large fleets without asking every host: ``reads`` names the fields of the
    host's document, if nothing else of the host decides; about() says when most hosts get the same verdict.
    """

    run_filter_once_per_request = False
    run_on_rebuild = False
    options = {}
    sets_limits = False
    reads = ()

    def __init__(self, options):
        self.options = options

    @property
    def name(self):
        return type(self).__name__

    def check(self, host_state, spec):
        raise NotImplementedError

    def about(self, spec):
        """Return uuids of instances, if all hosts that have none of these get the same verdict; else None."""
        return None


class Weigher:
    """A preference between hosts: the higher multiplier * normalised raw weight, the better.

    A subclass defines raw(host_state, spec) -> number. Raw weights are clamped to ``minval`` and ``maxval`` where these
    are set and normalised over the hosts that passed: (x - min) / (max - min), with minval and maxval in place of the
    extremes, and 0 for all where the extremes are equal. ``multiplier_option`` names the option; the metadata of a
    host's aggregates overrides it (the lowest, if all are numbers). ``default``: is it part of all_weighers?
    """

    minval = None
    maxval = None
    multiplier_option = None
    multiplier_key = None
    sign = 1
    default = True
    options = {}

    def __init__(self, options):
        self.options = options

    @property
    def name(self):
        return type(self).__name__

    def configured(self):
        """Return the multiplier, without ``sign``, for hosts whose aggregates do not override it."""
        return self.options[self.multiplier_option] if self.multiplier_option else 1.0

    def multiplier(self, host_state):
        if not self.multiplier_option:
            return 1.0
        return self.sign * lowest(
            host_state.aggregates, self.multiplier_key or self.multiplier_option, self.configured(), _finite
        )

    def expect(self, specs):
        """Called once, before anything is weighed, with all requests of this run. For weighers that look ahead."""

    def raw(self, host_state, spec):
        raise NotImplementedError

    def weigh(self, host_states, spec):
        """Return the clamped raw weights of all hosts."""
        low, high = self.minval, self.maxval
        weights = [self.raw(host_state, spec) for host_state in host_states]
        if low is not None:
            weights = [value if value > low else low for value in weights]
        if high is not None:
            weights = [value if value < high else high for value in weights]
        return weights


def _finite(text):
    """Return the number, or raise ValueError: times 0 an infinite one is NaN, which is neither more nor less than others."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("%s is not finite" % text)
    return number


def normalize(weights, minval=None, maxval=None):
    """Scale raw weights to between 0 and 1 (nova.weights.normalize)."""
    high = float(max(weights) if maxval is None else maxval)
    low = float(min(weights) if minval is None else minval)
    if high == low:
        return [0] * len(weights)
    spread = high - low
    return [(value - low) / spread for value in weights]


def parse_options(items, read=float):
    """[(name, value)] of "name=value" texts; what cannot be read is left out, as in Nova."""
    found = []
    for item in items or ():
        name, equals, value = str(item).partition("=")
        try:
            value = read(value)
        except ValueError:
            continue
        if name and equals:
            found.append((name, value))
    return found
