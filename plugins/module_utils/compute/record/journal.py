# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happened to an instance, kept in its record: events (Nova's instance actions) and faults."""

from __future__ import annotations

import datetime

from ...model.safe_text import clean

FAULT_LIMIT = 20
_acting = {}  # for whom this process works


def act_for(by):
    """Set for whom this process works: {who, run}, or None. Every event that it notes contains it."""
    _acting.clear()
    _acting.update({name: clean(str(by[name])) for name in ("who", "run") if by and by.get(name)})


def who():
    return _acting.get("who") or "nobody knows who"


def now(ago=0):
    """The time, ``ago`` seconds before, in UTC, for people; no decision uses it."""
    then = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=ago)
    return then.strftime("%Y-%m-%dT%H:%M:%SZ")


def noted(record, event, **details):
    return record.noted(event, now(), **_acting, **details)


def faulted(record, error):
    """Return the record with one more fault, from a BerthError: {code, message, at}."""
    fault = {"code": error.code, "message": str(error)[:1000], "at": now()}
    return record.replace(faults=(list(record.faults) + [fault])[-FAULT_LIMIT:])
