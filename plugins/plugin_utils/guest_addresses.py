# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses of guests that have no fixed one, as their hosts know them: by DHCP, from the neighbours, by their agent."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Mapping

from ansible.plugins.action import ActionBase

from ..module_utils.conductor.closing_table import Outcome
from .fan_out import answers, ask
from .plain import plain
from .screen import say

WAIT, PAUSE = 30, 3  # seconds for guests that were just started, and between two questions


def add(outcomes: List[Outcome], uuids: Mapping[str, str], told: Mapping[str, Mapping[str, Any]]) -> None:
    """Complete the rows that have no address. ``uuids``: instance -> uuid; ``told``: host -> its reply with addresses. That of
    a record stays."""
    for row in outcomes:
        known = (told.get(row.host, {}).get("addresses") or {}).get(uuids.get(row.instance), {})
        row.address = row.address or str(known.get("address") or "")


def find(action: ActionBase, task_vars: Dict[str, Any], rows: List[Outcome], uuids: Mapping[str, str]) -> None:
    """Ask the hosts of ``rows``, which have no address, and wait for what they will know soon."""
    until = None
    while rows:
        hosts = dict.fromkeys(row.host for row in rows)
        told = plain(answers(ask(action, task_vars, hosts, "host_facts", {"addresses": True})))
        add(rows, uuids, told)
        rows = [row for row in rows if _comes(told[row.host], uuids[row.instance]) and row.state != "unchanged"]
        if rows and until is None:
            until = time.monotonic() + WAIT
            say("Waiting for the addresses of %s, at most %d s" % (", ".join(row.instance for row in rows), WAIT))
        if not rows or time.monotonic() > until - PAUSE:
            return
        time.sleep(PAUSE)


def _comes(reply: Mapping[str, Any], uuid: str) -> bool:
    return uuid in reply.get("awaited", ())
