# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What berth.kvm.start_after_outage does, by this host alone, after its boot: it starts the guests that should run and that are its
own. That, a host cannot know by itself, since an instance may have continued elsewhere meanwhile: the registry says it.

A unit of systemd runs main() in a process of its own, see host/outage_unit.py. Without an answer nothing is started.
"""

from __future__ import annotations

import json
import os
import sys

from ...model.errors import BerthError, shortened
from ..host.host import Host
from ..host.registry_reading import Registry
from ..record import journal, registry_mark
from . import power
from .instance import Instance

ACTION = "start after an outage"
WAIT = 600  # seconds in which the registry has to answer
BUSY = 60  # seconds to wait for a run that works on an instance


class NotOwned(BerthError):
    """The registry does not say that the instance is this host's, at rest, as its record has it."""


def main(settings, certificate):
    """``settings``, ``certificate``: paths, see registry_reading.py. Tell the journal what was done. Return 1 if a guest that should
    run was left off, else 0."""
    with open(settings, encoding="utf-8") as file:
        registry = Registry(json.load(file), certificate, WAIT)
    journal.act_for({"who": "%s after its boot" % os.uname().nodename})
    return 0 if start_guests(Host.here(ACTION), registry, _say) else 1


def start_guests(host, registry, say):
    """Return whether all that should run does. ``say``: is told each that does not, and why."""
    due = [record for record in host.store.sound() if power.is_due(host, record)]
    if not due:
        say("no guest of this host is to be started")
        return True
    try:
        known = registry.read([record.uuid for record in due])
        _check(host.store, known)
    except BerthError as error:
        say("nothing was started, not %s: %s" % (shortened([record.name for record in due]), error))
        return False
    started = [_is_started(host, record, known, say) for record in due]
    return all(started)


def _check(store, known):
    """Raise a BerthError unless it is the registry that this host belongs to, as of now."""
    registry_mark.act_over(known.mark)
    registry_mark.check(store)
    if not known.is_open:
        raise NotOwned("the registry is closed: what it knows does not count")


def _is_started(host, record, known, say):
    try:
        _check_owner(record, known.entries.get(record.uuid), host.identify())
        if power.recover(Instance(host, record.uuid, timeout=BUSY)):
            say("%s was started" % record.name)
        return True
    except BerthError as error:
        say("%s was not started: %s" % (record.name, error))
        return False


def _check_owner(record, entry, host_uuid):
    if not entry or entry["owner"] != host_uuid:
        raise NotOwned("by the registry it belongs to another host, or to none")
    if entry["epoch"] != record.generation[0]:
        raise NotOwned("its epoch here is %d, and by the registry %d" % (record.generation[0], entry["epoch"]))
    if entry["pending"]:
        raise NotOwned("by the registry a run works on it")


def _say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
