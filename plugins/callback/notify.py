# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Notifies programs about instances while a run continues (Nova's notifications)."""

from __future__ import annotations

DOCUMENTATION = r"""
name: notify
type: notification
version_added: 1.0.0
short_description: Write an event for each transition of an instance
description:
  - Appends a line of JSON to a file for each transition of an instance that a run brings about, from the claim on a host, and for what
    became of it in the end; and for each volume that C(berth.kvm.delete_volume) deletes. Events are those that this controller heard
    of; the history in the record of the instance has all.
  - In check mode nothing changes, and nothing is written. A file that cannot be written is a warning and ends no run.
requirements:
  - C(berth.kvm.notify) in C(callbacks_enabled) of the configuration
options:
  path:
    description: The file. It is made for its owner only.
    type: path
    required: true
    env:
      - name: BERTH_NOTIFY_FILE
    ini:
      - section: callback_berth_notify
        key: path
author:
  - The berth.kvm authors (!UNKNOWN)
"""

EXAMPLES = r"""
# ansible.cfg
# [defaults]
# callbacks_enabled = berth.kvm.notify
# [callback_berth_notify]
# path = /var/log/berth-events.json
"""

import datetime
import json
import os

from ansible.plugins.callback import CallbackBase

from ..module_utils.conductor.procedures.steps import STATES
from ..plugin_utils import acting
from ..plugin_utils.plain import plain
from ..plugin_utils.screen import warn

COLLECTION = "berth.kvm."
# Actions whose result has the present state of an instance: action -> the part of the result.
UPDATES = {
    "instance": "instance",
    "instance_backup": "instance",
    "instance_copy": "instance_copy",
}
# Actions whose result has what was said while they ran.
SAY = ("create_instances", "move_instances", "operate_instances")
# Actions whose result has the outcome for all instances of the run, if it is the run's last one.
ENDS = ("create_instances", "move_instances", "operate_instances", "placement")
OUTCOME = ("state", "host", "flavor", "why", "error_code", "error")


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "berth.kvm.notify"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._last = {}  # (instance, host) -> the states that were reported

    def v2_runner_on_ok(self, result):
        action = result.task.action.removeprefix(COLLECTION)
        if result.task.check_mode or not result.task.action.startswith(COLLECTION):
            return
        for said in plain(result.result.get("said") or []) if action in SAY else ():
            self._write({"event": "instance.update", **said})
        if action in ENDS:
            self._end(plain(result.result.get("outcomes") or []))
        elif action == "delete_volume" and result.result.get("changed"):
            deleted = {key: result.result[key] for key in ("volume", "project", "host")}
            self._write({"event": "volume.delete", **plain(deleted)})
        elif action in UPDATES:
            results = result.result.get("results")
            # our loops go over hosts
            items = [(each.get("item"), each) for each in results] if isinstance(results, list) else None
            for host, item in items or [(result.task.delegate_to, result.result)]:
                found = item.get(UPDATES[action])
                if item.get("changed") and isinstance(found, dict):
                    self._update(result.host.get_name(), host, plain(dict(found)))

    def v2_runner_on_failed(self, result, ignore_errors=False):
        """Report failed loops too: their other items may have changed instances."""
        self.v2_runner_on_ok(result)

    def _update(self, name, host, found):
        """One event for each transition; a state that was already reported gives no event."""
        host = (found.get("host") or {}).get("name", host)
        states = {key: found[key] for key in STATES if key in found}
        if self._last.get((name, host)) == states:
            return
        self._last[name, host] = states
        self._write({"event": "instance.update", "instance": name, "uuid": found.get("uuid"), "host": host, **states})

    def _end(self, outcomes):
        for outcome in outcomes:
            if outcome["state"] != "unchanged":
                parts = {key: outcome[key] for key in OUTCOME if outcome.get(key)}
                self._write({"event": "instance.end", "instance": outcome["instance"], **parts})

    def _write(self, event):
        at = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        line = json.dumps({"at": at, **acting.by(), **event}, sort_keys=True) + "\n"
        try:
            fd = os.open(self.get_option("path"), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, line.encode("utf-8"))
            finally:
                os.close(fd)
        except OSError as error:
            warn("berth.kvm.notify: %s: %s" % (error.filename or "the file", error.strerror))
