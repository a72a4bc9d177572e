# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that are booted anew one after the other: what is left to do with each, and whether it came back whole.

Only what a host says of itself counts, no note of an earlier run: a host that this closed is finished first; one that was
booted since the time that the run was given is done.
"""

from __future__ import annotations

from typing import Iterable, List, NamedTuple, Optional, Sequence

from ..model import hints
from ..model.errors import BerthError
from ..model.messages import Document
from .doctor import ERROR, Finding
from .errors import HostUnknown
from .fleet import Fleet

REASON = "rolling reboot"  # of the hosts that are closed for it
REBOOT, RETURN, DONE, CLOSED = "reboot", "return", "done", "closed"


class HostNotWhole(BerthError):
    """A host was booted, and the doctor finds errors there."""


class Step(NamedTuple):
    """``does``: REBOOT, RETURN (it was booted, and is still closed), DONE, or CLOSED (by somebody, for another reason)."""

    host: str
    does: str
    why: str = ""


def order(fleet: Fleet, hosts: Sequence[str], since: Optional[int]) -> List[Step]:
    """What is to be done with each of ``hosts``, those first that are closed for this. ``since``: the seconds within which a
    host that was booted is done. Raises HostUnknown for one that does not answer."""
    silent = [host for host in hosts if host in fleet.verdicts]
    if silent:
        why = "; ".join("%s: %s" % (host, fleet.verdicts[host]) for host in silent)
        raise HostUnknown(
            "%s not answer: %s" % ("does" if len(silent) == 1 else "do", why), hint=hints.bring_back(silent)
        )
    steps = [_step(host, fleet.documents[host], since) for host in hosts]
    return sorted(steps, key=lambda step: not is_ours(fleet.documents[step.host]))


def is_ours(document: Document) -> bool:
    return (document.get("drained") or {}).get("reason") == REASON


def _step(host: str, document: Document, since: Optional[int]) -> Step:
    closed = document.get("drained")
    if is_ours(document):
        return Step(host, RETURN if document["drained"].get("rebooted") else REBOOT)
    if closed:
        return Step(host, CLOSED, str(closed["reason"]) or "drained for maintenance")
    up = next((each["value"] for each in document["metrics"] if each["name"] == "uptime"), None)
    return Step(host, DONE if since is not None and up is not None and up <= since else REBOOT)


def check_whole(host: str, findings: Iterable[Finding]) -> None:
    """Raise HostNotWhole for errors at the host."""
    wrong = [each for each in findings if each.where == host and each.severity == ERROR and not each.fixed]
    if wrong:
        text = "; ".join("%s: %s" % (each.code, each.said) for each in wrong)
        raise HostNotWhole("%s was booted, but: %s" % (host, text), hint=wrong[0].todo, host=host)
