# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bridges of one name that do not lead to the same network on all hosts, by their MTU and whether they have an uplink.

A bridge without an uplink on any host is meant so, and is passed over. What is told refuses nothing: it depends on what the
guests send.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Tuple

from ..model.messages import Document

MTU, UPLINK = "mtu", "uplink"


def differing(documents: Mapping[str, Document]) -> Iterator[Tuple[str, str]]:
    """(MTU or UPLINK, a sentence) for each bridge that differs between these hosts; ``documents``: host -> its facts."""
    for bridge, links in sorted(_by_bridge(documents).items()):
        outside = {host: link[MTU] for host, link in links.items() if link[UPLINK]}
        if outside and len(outside) < len(links):
            lacking = sorted(set(links) - set(outside))
            yield (
                UPLINK,
                "bridge %s has no uplink on %s, but on %s"
                % (bridge, " and ".join(lacking), " and ".join(sorted(outside))),
            )
        if len(set(outside.values())) > 1:
            told = ", ".join("%d on %s" % (mtu, host) for host, mtu in sorted(outside.items()))
            yield MTU, "the MTU of bridge %s differs: %s" % (bridge, told)


def lost_by_a_move(spec: Document, source: Document, destination: Document) -> List[str]:
    """What a guest with the request ``spec`` could lose, from the facts of both hosts: sentences."""
    links = _by_bridge({"source": source, "destination": destination})
    used = {nic.get("source"): None for nic in spec.get("networks") or () if nic.get("type") == "bridge"}
    found = []
    for bridge in used:
        here, there = (links.get(bridge, {}).get(side) for side in ("source", "destination"))
        if not (here and there and here[UPLINK]):
            continue
        if not there[UPLINK]:
            found.append("its bridge %s has no uplink there, so nothing outside that host would reach it" % bridge)
        elif there[MTU] < here[MTU]:
            text = "its bridge %s has an MTU of %d there and %d now: larger packets would be lost"
            found.append(text % (bridge, there[MTU], here[MTU]))
    return found


def _by_bridge(documents: Mapping[str, Document]) -> Dict[str, Dict[str, Any]]:
    """bridge -> host -> {mtu, uplink}"""
    found: Dict[str, Dict[str, Any]] = {}
    for host, document in documents.items():
        for bridge, link in (document.get("bridge_links") or {}).items():
            found.setdefault(bridge, {})[host] = link
    return found
