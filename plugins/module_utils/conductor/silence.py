# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that did not report what they hold: whether they are away, or answer but are broken, and what to do about it.

Only a host that is away can be given up as lost: if only its libvirt hangs, its guests keep running.
"""

from __future__ import annotations

from typing import Collection, Mapping, Optional, Sequence

from ..model import fleet_hints, hints, host_hints
from ..model.messages import Document
from . import duplicate_hosts
from .errors import HostNotAsked, HostNotLost, HostUnknown

NO_ANSWER, HUNG, UNPREPARED, NOT_ASKED = "UNREACHABLE", "LibvirtTimeout", "HostNotPrepared", HostNotAsked.__name__
CLOSED = NO_ANSWER + ": closed"
NO_LOGIN = NO_ANSWER + ": no login: "  # a machine is there, and its sshd answers
NOT_IN_REGISTRY = "the registry does not know it"  # nobody has asked it, and it has nothing that others may want


def is_there(reason: str) -> bool:
    """Whether the host answers. ``reason``: why it is left out of the run."""
    return not reason.startswith(NO_ANSWER)


def closed(reason: str, by: str, why: str) -> str:
    """The reason of a silent host that a person closed before. ``by``: how, such as "by the inventory"; ``why``: as said then."""
    return "%s %s%s; %s" % (CLOSED, by, " (%s)" % why if why else "", reason.partition(": ")[2] or "it does not answer")


def is_closed(reason: str) -> bool:
    """Whether the host is known to come back: nobody is told to give it up as lost."""
    return reason.startswith(CLOSED)


def unanswered(host: str, reason: str) -> HostUnknown:
    """The error of a host that fell silent while it worked on an instance."""
    advice = hints.bring_back if is_closed(reason) else hints.bring_back_or_lost
    return HostUnknown("%s did not answer: %s" % (host, reason.removeprefix(NO_ANSWER + ": ")), hint=advice([host]))


def named(host: str, error: Document) -> Document:
    """The error of a host that does not say its own name: of the two hosts of a move nobody knows which is meant."""
    return {
        **error,
        "message": str(error.get("message")).replace("libvirt at qemu:///system", "libvirt on %s" % host, 1),
    }


def has_code(reason: str, code: str) -> bool:
    """Whether the reason is the error of this code: it begins with it."""
    return reason.partition(":")[0] == code


def describe(host: str, reasons: Mapping[str, str]) -> str:
    reason = reasons.get(host, NO_ANSWER)
    if is_closed(reason):
        return "%s, which is %s" % (host, reason.partition(": ")[2])
    if has_code(reason, NOT_ASKED):
        return "%s (%s)" % (host, reason)
    if reason.startswith(NO_LOGIN):
        return "%s, which lets nobody log in" % host
    return "%s (which is there, but: %s)" % (host, reason) if is_there(reason) else "%s, which does not answer" % host


def hint(hosts: Sequence[str], reasons: Mapping[str, str], given: Collection[str] = ()) -> str:
    """What to do about hosts that may hold an instance. Repair hosts that answer first. ``given``: the hosts that the run gave up as
    lost, which the next one has to name again."""
    there = [host for host in hosts if is_there(reasons.get(host, NO_ANSWER))]
    if not there and any(is_closed(reasons.get(host, NO_ANSWER)) for host in hosts):
        return hints.bring_back(hosts)
    locked = [host for host in hosts if reasons.get(host, NO_ANSWER).startswith(NO_LOGIN)]
    if not there and locked:
        return fleet_hints.make_login_work(locked)
    if not there:
        return hints.bring_back_or_lost(hosts, sorted(set(given) - set(hosts)))
    if all(has_code(reasons[host], NOT_ASKED) for host in there):
        return hints.run_again()  # the reason says what to do first
    if all(has_code(reasons[host], HUNG) for host in there):
        return hints.restart_hung_libvirt()
    if all(has_code(reasons[host], UNPREPARED) for host in there):
        return host_hints.prepare_host(",".join(there))
    if all(has_code(reasons[host], duplicate_hosts.CONFLICT) for host in there):
        # All answer, so nothing on them is out of order: the inventory is.
        return fleet_hints.listed_twice(", ".join(there))
    return fleet_hints.mend_host(", ".join(there))


def check_lost(
    lost: Collection[str], reasons: Mapping[str, str], called: Optional[Mapping[str, Collection[str]]] = None
) -> None:
    """Raise HostNotLost if a host that was declared lost answers: by its name, or by a uuid of those ``called`` so."""
    for host in sorted(reasons):
        may_be_lost = not is_there(reasons[host]) or reasons[host].startswith(NOT_IN_REGISTRY)
        if not may_be_lost and set(lost) & {host, *(called or {}).get(host, ())}:
            raise HostNotLost("%s is there, but: %s" % (host, reasons[host]), hint=hints.mend_lost_host(host))


def check_none_answers(lost: Collection[str], answering: Collection[str]) -> None:
    """Raise HostNotLost if a host that was declared lost is among those that report what they hold."""
    for host in sorted(set(lost) & set(answering)):
        raise HostNotLost("%s was declared lost, but it answers" % host, hint=hints.not_lost(host))
