# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The smallest changes with which a request would fit ("It would fit if ..."), where placement found no valid host.

Three kinds of change are tried: a limit on one host (capacity, NUMA cells, PCI devices, operations, instances,
disabled), one field of the request (its group's policy, its hints, ignore_hosts, the zone), or one instance moved from
one host to another. A change is shown only after placement, run again on all hosts with that change, found a host.

The work is bounded by counts, not by a clock, so that the answer is the same on every machine: in a large fleet only
the hosts that lack least are tried.
"""

from __future__ import annotations

from .limits import limit_changes
from .moves import move_changes
from .request import request_changes
from .trial import Change, Trial, refusals

# This many of the cheapest changes of each kind are tried with a full run of placement.
FULL_RUNS = 2


def smallest_changes(host_documents, requests, options=None, aggregates=(), seed=0, failed=None):
    """Return [Change]: the smallest of each kind with which all ``requests`` get a host, smallest first; may be empty.

    The arguments are those of select_destinations; the ``requests`` are placed together. Host states, such as those of
    a Result, may be given instead of documents and are left unchanged. ``failed`` is the Result without a valid host,
    if there is one already.
    """
    trial = Trial(host_documents, requests, options, aggregates, seed)
    failed = failed or trial.run(trial.states, trial.requests)
    answer = next((answer for answer in failed.requests if answer.error is not None and answer.explanation), None)
    if answer is None:
        return []
    refused = refusals(answer.explanation)
    held = []
    for offers in (request_changes, limit_changes, move_changes):
        held += _cheapest_that_holds(trial, offers(trial, refused, answer))
    return sorted(held, key=lambda change: change.cost)


def fits_unignored(host_documents, request, options=None, aggregates=(), seed=0):
    """Whether the request would get a host if it ignored none."""
    trial = Trial(host_documents, [request], options, aggregates, seed)
    return trial.holds(Change("request", None, "", 0, lambda states, requests: requests[0].update(ignore_hosts=[])))


def _cheapest_that_holds(trial, changes):
    """[the first of the cheapest changes that works], or []: placement is run again with a change before it is shown."""
    # sorted() is stable: among equals the order of the hosts decides.
    offered = sorted(changes, key=lambda change: change.cost)
    return next(([change] for change in offered[:FULL_RUNS] if trial.holds(change)), [])
