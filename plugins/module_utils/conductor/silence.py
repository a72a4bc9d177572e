# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that did not say what they hold: whether they are away, or there and out of order, and what to do about it.

Only a host that is away can be given up as lost: on one whose libvirt hangs the guests go on running.
"""

from __future__ import annotations

from typing import Collection, Mapping, Sequence

from ..model import hints
from .errors import HostNotLost

NO_ANSWER, HUNG = "UNREACHABLE", "LibvirtTimeout"


def is_there(reason: str) -> bool:
    """``reason``: why the host is left out of the run."""
    return not reason.startswith(NO_ANSWER)


def describe(host: str, reasons: Mapping[str, str]) -> str:
    reason = reasons.get(host, NO_ANSWER)
    return "%s, which is there, but: %s" % (host, reason) if is_there(reason) else "%s, which does not answer" % host


def hint(hosts: Sequence[str], reasons: Mapping[str, str]) -> str:
    """What to do about hosts that may hold an instance. Repair hosts that answer first."""
    there = [host for host in hosts if is_there(reasons.get(host, NO_ANSWER))]
    if not there:
        return hints.bring_back_or_lost(hosts)
    if all(reasons[host].startswith(HUNG) for host in there):
        return hints.restart_hung_libvirt()
    return hints.mend_lost_host(", ".join(there))


def check_lost(lost: Collection[str], reasons: Mapping[str, str]) -> None:
    """Raises HostNotLost for a host that was declared lost and answers."""
    for host in sorted(set(lost) & set(reasons)):
        if is_there(reasons[host]):
            raise HostNotLost("%s is there, but: %s" % (host, reasons[host]), hint=hints.mend_lost_host(host))
