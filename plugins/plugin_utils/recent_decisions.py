# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last decisions of this controller, for the report: where each instance went, and the verdict on each host."""

from __future__ import annotations

import contextlib
from typing import Any, Collection, Dict, List

from ..module_utils.placement.explain import host_rows
from . import receipts
from .receipts import ReceiptInvalid

MOST = 20  # decisions
MOST_RECEIPTS = 10  # each is read completely, and in a large fleet it contains all hosts


def recent(keeping: receipts.Settings, hosts: Collection[str]) -> List[Dict[str, Any]]:
    """[{at, operation, by, instance, uuid, host, error, hosts}], the newest first; ``hosts``: [{host, place, weight,
    why}]. A file that is no receipt, or has no explanation, is skipped. Raises InvalidInput if the directory cannot
    be read."""
    found: List[Dict[str, Any]] = []
    for seen, (path, head) in enumerate(receipts.heads(keeping, hosts)):
        if seen == MOST_RECEIPTS or len(found) >= MOST:
            break
        with contextlib.suppress(ReceiptInvalid):
            _head, receipt, fleet = receipts.read(path)
            if receipt["matrix"] is not None:  # deciding again takes too long in such a large fleet
                names = sorted(head["instances"])
                found += [_decision(head, request) for request in receipts.explained(path, receipt, fleet, names)]
    return found[:MOST]


def _decision(head: Dict[str, Any], explained: Dict[str, Any]) -> Dict[str, Any]:
    hosts = [dict(zip(("host", "place", "weight", "why"), row)) for row in host_rows(explained, 0)]
    return {
        "at": head["at"],
        "operation": head["operation"],
        "by": head["who"],
        "instance": explained["name"],
        "uuid": head["instances"][explained["name"]],
        "host": next((row["host"] for row in hosts if row["why"] == "chosen"), ""),
        "error": (explained["error"] or {}).get("message", ""),
        "hosts": hosts,
    }
