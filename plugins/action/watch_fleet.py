# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action watch_fleet: see plugins/modules/watch_fleet.py for its documentation."""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import time

from ..module_utils.conductor import silence, watching
from ..module_utils.model import copy_hints, hints
from ..module_utils.model.errors import BerthError, shortened, worded
from ..plugin_utils import fencing, fleet_options, state_directory
from ..plugin_utils.answers_of_hosts import read_reports
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.documents import read_whole, write_file
from ..plugin_utils.fan_out import ask_each
from ..plugin_utils.inventory_variables import kvm_hosts, variables
from ..plugin_utils.screen import say, warn

FOLDER = "watch"
WITNESSES, SECONDS = 3, 5  # other hosts that try to reach a silent one, and how long each tries
POLICY, ADDRESS, PORT = "berth_watch_policy", "ansible_host", "ansible_port"
REFUSED, NOT_REACHED = "connection refused", "Timeout when waiting for"  # as ssh and wait_for say it
NOTHING = {"at": 0.0, "down": {}, "evacuated": []}


class ActionModule(ControllerAction):
    argument_spec = documented("watch_fleet")

    def reported(self, result):
        return None if result["evacuate"] else {part: result[part] for part in ("down", "evacuate")}

    def act(self, args, task_vars):
        hosts = kvm_hosts(task_vars, args["hosts"])
        if args["evacuated"]:
            name = _file(hosts)
            self._keep(name, watching.evacuated(_kept(name), args["evacuated"]))
            return {"down": args["evacuated"], "evacuate": args["evacuated"]}
        return self._look(hosts, args, task_vars)

    def _keep(self, name, kept):
        if not self._task.check_mode:
            with state_directory.opened(FOLDER, make=True) as folder:
                write_file(folder, name, json.dumps(kept).encode(), 0o600)

    def _look(self, hosts, args, task_vars):
        limits = watching.Limits(
            fleet_options.whole("berth_watch_seconds", args["seconds"]),
            fleet_options.whole("berth_watch_most", args["most"]),
            fleet_options.whole("berth_watch_share", args["share"]),
        )
        given = {host: variables(task_vars, host, [POLICY, ADDRESS, PORT]) for host in hosts}
        policies = {
            host: watching.POLICY.check(its.get(POLICY, watching.TELL), "%s of %s" % (POLICY, host))
            for host, its in given.items()
        }
        _warn_of_fences(task_vars, policies)
        fleet = read_reports(task_vars, hosts)
        silent = [
            host for host, why in fleet.verdicts.items() if not silence.is_there(why) and not silence.is_closed(why)
        ]
        alive = {host: self._sign_of_life(task_vars, host, given[host], fleet) for host in silent}
        down, name = [host for host in silent if not alive[host]], _file(hosts)
        found = watching.judge(down, len(silent), len(hosts), _kept(name), policies, limits, time.time())
        self._keep(name, found.kept)
        say("", *_lines(fleet, alive, found, policies, limits), "")
        _refuse(found, [host for host in silent if host not in found.done], hosts, limits)
        return {"down": sorted(down), "evacuate": found.evacuate}

    def _sign_of_life(self, task_vars, host, given, fleet):
        """Why the silent host is not down, an empty text if it is: other hosts try the port of its sshd, and none reaches it."""
        if REFUSED in fleet.verdicts[host]:
            return "its kernel refuses connections, so it runs"
        name = str(given.get(ADDRESS) or host)
        try:  # to wait_for, a name that a witness does not know looks like a host that is down
            address = socket.getaddrinfo(name, None)[0][4][0]
        except (OSError, UnicodeError):
            return "no other host can look: %s of it, %s, is no address that the controller can resolve" % (
                ADDRESS,
                name,
            )
        asked = {
            "module": "wait_for",
            "arguments": {
                "host": address,
                "port": int(given.get(PORT) or 22),
                "timeout": SECONDS,
                "connect_timeout": SECONDS,
            },
        }
        witnesses = sorted(fleet.documents)[:WITNESSES]
        results = ask_each(self, task_vars, "host_task", dict.fromkeys(witnesses, asked))
        reach = [each for each in witnesses if not results[each].get("failed") and not results[each].get("unreachable")]
        if reach:
            return "%s reaches it" % ", ".join(reach)
        tried = any(str(result.get("msg")).startswith(NOT_REACHED) for result in results.values())
        return "" if tried else "no other host could look whether it is down"


def _warn_of_fences(task_vars, policies):
    """What would keep a host from being switched off is told before it is down."""
    found = {}
    for host in [host for host, policy in policies.items() if policy == watching.EVACUATE]:
        try:
            fencing.agent_of(task_vars, host, policies)
        except BerthError as error:
            fault = worded(error.message, error.rule, None).replace(" of %s" % host, "", 1)
            found.setdefault(fault, []).append(host)
    for fault, hosts in found.items():
        warn("%s would not be evacuated: %s" % (shortened(hosts), fault))


def _file(hosts):
    """One for each fleet that this user watches."""
    return "%s.json" % hashlib.sha256("\n".join(sorted(hosts)).encode()).hexdigest()[:16]


def _kept(name):
    """What the last pass has kept; nothing if that cannot be read, so the time starts anew."""
    with contextlib.suppress(BerthError, OSError, ValueError, TypeError, KeyError, AttributeError):
        with state_directory.opened(FOLDER) as folder:
            found = json.loads(read_whole(folder, name)) if folder is not None else NOTHING
        done = [str(host) for host in found.get("evacuated") or []]
        down = {str(host): float(at) for host, at in found["down"].items()}
        return {"at": float(found["at"]), "down": down, "evacuated": done}
    return NOTHING


def _lines(fleet, alive, found, policies, limits):
    for host in sorted(alive):
        if alive[host]:
            yield "%s does not answer, but is not taken for down: %s" % (host, alive[host])
        elif host in found.done:
            yield "%s is down, and was evacuated" % host
        elif host in found.evacuate:
            yield "%s is down for %d s: it is fenced, and its instances start elsewhere" % (host, limits.seconds)
        elif host in found.told:
            yield "%s is down for %d s: %s" % (host, limits.seconds, found.told[host])
        elif host in found.waits:
            yield "%s is down for %d of %d s; its policy: %s" % (
                host,
                found.waits[host],
                limits.seconds,
                policies[host],
            )
        else:
            yield "%s is down; its policy: %s" % (host, policies[host])
    if not alive:
        yield "all hosts answer" if not fleet.verdicts else "no host is down that was not closed"


def _refuse(found, silent, hosts, limits):
    if found.cut_off:
        text = "%d of %d hosts are silent, more than %d percent" % (
            len(silent),
            len(hosts) - len(found.done),
            limits.share,
        )
        raise watching.ControllerCutOff(text, hint=hints.bring_back(sorted(silent)))
    if found.told and not found.evacuate:
        text = "; ".join("%s: %s" % told for told in sorted(found.told.items()))
        raise watching.HostsDown(text, hint=copy_hints.name_lost_hosts())
