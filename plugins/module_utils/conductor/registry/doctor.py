# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the doctor finds at the registry and its members, from what each of them tells."""

from __future__ import annotations

from typing import Iterator, List, NamedTuple, Optional, Sequence

from ...model import registry_hints, registry_member_hints
from ...model.errors import BerthError
from ...model.messages import Document
from ..doctor import ERROR, NOTE, WARNING, Finding
from ..errors import RegistryRefused, RegistryUnknown

DAY = 24 * 3600
CERTIFICATE_WARNING_DAYS = 30
NEARLY = 0.8  # of the quota
NO_SPACE = "NOSPACE"  # etcd's name of the alarm: it takes nothing more


class MemberSeen(NamedTuple):
    """``silent``: why it does not answer, empty if it does; the other parts are of one that does. ``ends``: when its certificate
    does, in seconds since 1970."""

    name: str
    silent: str = ""
    has_leader: bool = False
    version: str = ""
    used: int = 0
    quota: int = 0
    ends: float = 0.0


class RegistrySeen(NamedTuple):
    """``refused``: why the registry as a whole tells nothing, None if it does; ``meta``: see keys.py, None where it is empty."""

    members: Sequence[MemberSeen]
    refused: Optional[BerthError] = None
    alarms: Sequence[str] = ()
    meta: Optional[Document] = None


def findings(seen: RegistrySeen, now: float) -> Iterator[Finding]:
    there = [member for member in seen.members if not member.silent]
    yield from _silent(seen, there)
    if seen.refused:
        yield Finding("RegistryUnknown", ERROR, "", seen.refused.message, _todo(seen.refused))
    else:
        yield from _meta(seen.meta)
    yield from _space(seen, there)
    versions = sorted({member.version for member in there})
    if len(versions) > 1:
        text = "the members of the registry run etcd %s" % " and ".join(versions)
        yield Finding("RegistryVersionsDiffer", NOTE, "", text, registry_member_hints.upgrade_members())
    for member in there:
        days = int((member.ends - now) // DAY)
        if days < CERTIFICATE_WARNING_DAYS:
            text = "its certificate as a member of the registry ends in %d days" % days
            yield Finding("RegistryCertificateEnds", WARNING, member.name, text, registry_member_hints.renew_members())


def _todo(refused: BerthError) -> str:
    if isinstance(refused, RegistryUnknown) and not isinstance(refused, RegistryRefused):
        return registry_member_hints.start_members()
    return registry_hints.find_registry_authority()  # it does not know this controller


def _silent(seen: RegistrySeen, there: List[MemberSeen]) -> Iterator[Finding]:
    for member in seen.members:
        if member.silent:
            text = "this member of the registry does not answer: %s" % member.silent
            hint = registry_member_hints.start_members()
            yield Finding("RegistryMemberSilent", WARNING, member.name, text, hint)
        elif not member.has_leader and not seen.refused:
            text = "this member of the registry is cut off from the others"
            yield Finding("RegistryMemberAlone", WARNING, member.name, text, registry_member_hints.start_members())


def _meta(meta: Optional[Document]) -> Iterator[Finding]:
    if meta is None:
        text = "berth_registry names a registry that is empty"
        yield Finding("RegistryEmpty", ERROR, "", text, registry_hints.fill_registry())
    elif not meta["open"]:
        text = "the registry was restored, or is being filled, and takes nothing yet"
        yield Finding("RegistryClosed", ERROR, "", text, registry_hints.compare_all_hosts())


def _space(seen: RegistrySeen, there: List[MemberSeen]) -> Iterator[Finding]:
    if NO_SPACE in seen.alarms:
        text = "the registry is full and takes nothing more"
        yield Finding("RegistryFull", ERROR, "", text, registry_member_hints.give_more_space())
        return
    for member in there:
        if member.used > NEARLY * member.quota:
            text = "its registry takes %d MiB of the %d that it may" % (member.used >> 20, member.quota >> 20)
            yield Finding("RegistryNearlyFull", WARNING, member.name, text, registry_member_hints.give_more_space())
