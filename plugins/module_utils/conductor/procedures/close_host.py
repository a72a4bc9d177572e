# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host is closed for maintenance, or opened again, and all hosts remember it."""

from __future__ import annotations

from ...model.messages import Document
from .. import majority
from ..errors import HostUnknown
from ..fleet import Fleet
from .steps import Ask, Procedure, refusals
from .telling import tell_members


def close_host(fleet: Fleet, host: str, given: Document, dry: bool) -> Procedure[bool]:
    """``given``: {state, reason}, as of module host_maintenance. Return whether that is news. Raises HostUnknown."""
    reply = (yield Ask("host_maintenance", {host: given}))[host]
    for _host, why, hint in refusals({host: reply}):
        raise HostUnknown("%s: %s" % (host, why), hint=hint, host=host)
    why = str((reply.get("drained") or {}).get("reason") or "maintenance") if given["state"] == "drained" else ""
    if not dry:  # while it is off, nobody takes it for lost
        uuid = fleet.documents[host]["uuid"]
        yield from tell_members(fleet, majority.closing(fleet.member_lists, uuid, host, why))
    return bool(reply.get("changed"))
