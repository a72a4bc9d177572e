# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two runs create the same instance at the same time: the run whose claim has the smaller token goes first.

Both claims are withdrawn. The run that goes first tries again, on another host if it has one; the other run ends.
"""

from __future__ import annotations

from typing import List, Tuple

from ..model import hints
from ..model.messages import ScannedRecord
from .errors import ClaimConflict
from .next_host import attempt_failed
from .plan import Instance, Plan, fail, withdraw, withdraw_claim


def give_way(plan: Plan, instance: Instance, others: List[Tuple[str, ScannedRecord]]) -> None:
    """``others``: (host, record) of the claims of the same instance on other hosts."""
    stale = [(host, record) for host, record in others if host in instance.get("stale_claims", ())]
    if len(stale) == len(others):
        # left by runs that ended: drop them, then read again; a run that is still alive keeps its claim by building
        for host, record in stale:
            withdraw(plan, host, instance["uuid"], record["token"])
        instance["stale_claims"] = []
        return
    withdraw_claim(plan, instance)
    host, record = min(others, key=lambda entry: entry[1]["token"])
    if record["token"] < (instance["token"] or ""):
        text = "another run is creating %s on %s; it goes first" % (instance["name"], host)
        fail(instance, ClaimConflict(text, hint=hints.another_run()))
    else:
        attempt_failed(plan, instance, "ClaimConflict", "another run was creating it on %s" % host, retryable=True)
