# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a silent host is to be evacuated without a person: one pass of a watch, which runs again and again.

A host is down while the controller cannot reach it and no other host can. What is kept between two passes is only since when,
and which of them were evacuated: {at, down: {host: seconds since 1970}, evacuated: [host]}. It starts anew after a pause in which
nobody looked. A host that was evacuated is done with until it answers: it counts for no limit.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Collection, Dict, List, Mapping

from ..model.errors import BerthError
from ..model.schema import OneOf

NEVER, TELL, EVACUATE = "never", "tell", "evacuate"
SOON = 120  # seconds: two passes so close belong together, however short the limit is
POLICY = OneOf(NEVER, TELL, EVACUATE)


class ControllerCutOff(BerthError):
    """More hosts are silent than may be: the controller itself is probably cut off, so none was evacuated."""


class HostsDown(BerthError):
    """Hosts are down for longer than the set time, and their policy or the limits of the watch leave them to a person."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """``seconds``: how long a host is down before it is evacuated; ``most``: how many hosts at once; ``share``: percent of the
    hosts that may be silent."""

    seconds: int
    most: int
    share: int


@dataclasses.dataclass
class Verdict:
    """``kept``: for the next pass; ``evacuate``: the hosts; ``told``: host -> why it is left to a person; ``waits``: host -> for how
    many seconds it has been down, of those whose time is not over; ``cut_off``: whether too many are silent."""

    kept: Dict[str, Any]
    evacuate: List[str] = dataclasses.field(default_factory=list)
    told: Dict[str, str] = dataclasses.field(default_factory=dict)
    waits: Dict[str, int] = dataclasses.field(default_factory=dict)
    done: List[str] = dataclasses.field(default_factory=list)
    cut_off: bool = False


def judge(
    down: Collection[str],
    silent: int,
    hosts: int,
    kept: Mapping[str, Any],
    policies: Mapping[str, str],
    limits: Limits,
    now: float,
) -> Verdict:
    """``down``: the hosts that no probe reaches; ``silent``: how many do not answer the controller, of ``hosts``; ``kept``: by the
    last pass; ``now``: seconds since 1970, by the controller's clock."""
    before = kept["down"] if 0 <= now - kept["at"] < max(limits.seconds, SOON) else {}
    since = {host: min(before.get(host, now), now) for host in sorted(down)}
    done = [host for host in kept["evacuated"] if host in before and host in since]
    cut_off = (silent - len(done)) * 100 > limits.share * (hosts - len(done))
    found = Verdict({"at": now, "down": since, "evacuated": done}, done=done, cut_off=cut_off)
    due = [host for host in since if host not in done and now - since[host] >= limits.seconds]
    found.waits = {host: int(now - since[host]) for host in since if host not in (*due, *done)}
    wanted = [host for host in due if policies[host] == EVACUATE]
    for host in due:
        if policies[host] == TELL:
            found.told[host] = "its policy is to tell a person"
        elif policies[host] == EVACUATE and len(wanted) > limits.most:
            found.told[host] = "%d hosts are down, and at most %d are evacuated" % (len(wanted), limits.most)
    found.evacuate = [] if found.cut_off else [host for host in wanted if host not in found.told]
    return found


def evacuated(kept: Mapping[str, Any], hosts: Collection[str]) -> Dict[str, Any]:
    """What the next pass finds once the evacuation of the hosts has come to its end."""
    return {**kept, "evacuated": sorted({*kept["evacuated"], *hosts})}
