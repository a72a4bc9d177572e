# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Has a host that leaves the fleet cleaned, after the other hosts were sent what it remembers about instances."""

from __future__ import annotations

import dataclasses

from ..module_utils.conductor.errors import HostInUse, HostNotCleaned
from ..module_utils.conductor.gossip import remembered_by
from ..module_utils.model import fleet_hints, hints
from .fan_out import answers, ask, refusals

MOST_AT_ONCE = 5000  # instances: a reply has a limit


def clean(action, task_vars, fleet, host, authorities):
    """Return {changed, removed, left}. Raise HostInUse if the host got something since it was read."""
    pass_on(action, task_vars, fleet, host)
    asked = {"authorities": authorities}
    done = _done(action, task_vars, host, "host_clean", asked)
    if done["restart"]:
        for service in done["restart"]:
            arguments = {"name": service, "state": "restarted"}
            _done(action, task_vars, host, "host_task", {"module": "service", "arguments": arguments})
        rest = _done(action, task_vars, host, "host_clean", asked)
        if rest["restart"]:
            raise HostNotCleaned(
                "%s on %s was restarted but still runs as before" % (", ".join(rest["restart"]), host),
                hint=hints.run_again(),
            )
        done = {"changed": True, "removed": done["removed"] + rest["removed"], "left": rest["left"]}
    return {part: done[part] for part in ("changed", "removed", "left")}


def pass_on(action, task_vars, fleet, host):
    """Send the other hosts what only this one may know of any instance, also of those that are in no inventory. Raise
    HostNotCleaned unless they took it: it is lost otherwise."""
    others = sorted(set(fleet.documents) - set(fleet.unprepared()) - {host})
    uuids = fleet.uuids()

    def asked(hosts, module, arguments):
        replies = answers(ask(action, task_vars, hosts, module, arguments))
        for name, why, hint in refusals(replies):
            what = "say" if name == host else "take"
            message = "%s was not cleaned, since %s did not %s what it remembers of instances: %s"
            raise HostNotCleaned(message % (host, name, what, why), hint=hint)
        return replies

    heard_of = asked([host], "host_facts", {"heard_of": True})[host].get("heard_of", ())
    asked(others, "rescan", {"told": remembered_by(fleet, host)})
    rest = sorted(set(heard_of) - set(fleet.notes[uuids[host]]))
    for start in range(0, len(rest), MOST_AT_ONCE):
        about = {"about": rest[start : start + MOST_AT_ONCE]}
        notes = {uuids[name]: reply["notes"] for name, reply in asked([host, *others], "host_facts", about).items()}
        asked(others, "rescan", {"told": remembered_by(dataclasses.replace(fleet, notes=notes), host)})


def _done(action, task_vars, host, module, arguments):
    reply = answers(ask(action, task_vars, [host], module, arguments))[host]
    if "reason" in reply:
        raise HostNotCleaned(
            "it is not known whether %s was cleaned: %s" % (host, reply["reason"]), hint=hints.run_again()
        )
    error = reply.get("error")
    if error and error.get("code") == "HostNotEmpty":
        raise HostInUse("%s: %s" % (host, error.get("message")), hint=fleet_hints.empty_host(host))
    if error:
        raise HostNotCleaned("%s: %s" % (host, error.get("message")), hint=error.get("hint") or hints.run_again())
    return reply
