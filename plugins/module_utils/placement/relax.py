# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The smallest changes that would make a request fit, where placement found no valid host.

Three kinds of change are tried: a limit on one host (capacity, NUMA cells, PCI devices, operations, instances,
disabled), one word of the request (its group's policy, its hints, ignore_hosts, the zone), or one instance moved from
one host to another. A change is told only after placement, run again on all hosts with that change, found a host.

The work is bounded by counts, not by a clock, so that the answer is the same on every machine: of a large fleet only
the hosts that lack least are looked at.
"""

from __future__ import annotations

from .changes.limits import limit_changes
from .changes.moves import move_changes
from .changes.request import request_changes
from .changes.trial import Trial, refusals

FULL_RUNS = 2


def smallest_changes(host_documents, requests, options=None, aggregates=(), seed=0, failed=None):
    """[Change]: of each kind the smallest found with which all ``requests`` get a host, smallest first; may be empty.

    The arguments are those of select_destinations, ``requests`` being what is placed together; host states, such as
    those of a Result, may stand for documents and are left unchanged. ``failed`` is the Result without a valid host
    where there is one already.
    """
    trial = Trial(host_documents, requests, options, aggregates, seed)
    failed = failed or trial.run(trial.states, trial.requests)
    answer = next((answer for answer in failed.requests if answer.error is not None and answer.explanation), None)
    if answer is None:
        return []
    refused = refusals(answer.explanation)
    held = []
    for offers in (request_changes, limit_changes, move_changes):
        # sorted() is stable: among equals the order of the hosts decides.
        offered = sorted(offers(trial, refused, answer), key=lambda change: change.cost)
        held += next(([change] for change in offered[:FULL_RUNS] if trial.holds(change)), [])
    return sorted(held, key=lambda change: change.cost)
