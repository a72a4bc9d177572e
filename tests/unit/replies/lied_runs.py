# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks and actions that ship, on a controller and hosts in memory: see lied_fleet.py. What the hosts are asked is
noted."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from unittest import mock

import good
import lied_fleet
import playbook_in_memory
from ansible.utils.display import Display

from ansible_collections.berth.kvm.plugins.action import create_instances, operate_instances
from ansible_collections.berth.kvm.plugins.plugin_utils import (
    acting,
    delegates,
    moving_instances,
    place_instances,
    plan_moves,
    screen,
)

NONCES = (create_instances, operate_instances, place_instances, plan_moves)
OPTIONS = {"berth_confirm_window": 600, "berth_migration_timeout": 600}


class Run:
    """One playbook run. ``texts``: what people read; ``asked``: what each host was told."""

    def __init__(self, playbook, lie=None, more=None, flavor=None, **extra_vars):
        self.fleet, self.texts = lied_fleet.Fleet(lie), []
        self.it = lied_fleet.controller(more)
        self.playbook, self.extra_vars = playbook, {"berth_lost_hosts": [], **OPTIONS, **extra_vars}
        for instance in extra_vars["berth_instances"] if flavor else ():
            self.it.inventory.hosts[instance].set_variable("berth_flavor", flavor)

    @property
    def asked(self):
        return self.fleet.asked

    def play(self):
        playbook_in_memory.play(self.it, self.playbook, self.extra_vars, self.read)

    def read(self, result):
        """What people read of the result of a task."""
        if result.get("failed"):
            self.texts.append(str(result.get("msg")))
            self.texts.append(str((result.get("error") or {}).get("hint") or ""))
        self.texts += [each["error"] for each in result.get("outcomes", ()) if each["error"]]
        self.texts.append(str(result.get("failure") or ""))
        for fact in ("berth_located", "berth_moves"):
            made = result.get("ansible_facts", {}).get(fact) or {}
            self.texts += [*made.get("errors", {}).values(), *filter(None, made.get("notes", {}).values())]


# ---- the runs --------------------------------------------------------------------------------------------------------

REST = [*lied_fleet.AT_REST, "resized"]
AT_REST = {"berth_instances": REST}
BIG_VOLUMES = {"berth_volumes_defined": {"db-" + host: {"size_gb": 30} for host in good.HOSTS}}
BACKUPS = {"berth_backup_to": "/b"}
RUNS = {
    "create": ("create", {}),
    **{name: (name, AT_REST) for name in ("stop", "start", "delete", "recover_record", "update_disks", "update", "rebuild")},
    "delete what a lost host had": ("delete", {"berth_instances": [*REST, "new-1"], "berth_lost_hosts": ["h9"]}),
    "update_disks grows": ("update_disks", {**AT_REST, "more": BIG_VOLUMES}),
    "snapshot": ("snapshot", {**AT_REST, "berth_snapshot": "two"}),
    "snapshots": ("snapshots", AT_REST),
    "revert_snapshot": ("revert_snapshot", {**AT_REST, "berth_snapshot": "one"}),
    "delete_snapshot": ("delete_snapshot", {**AT_REST, "berth_snapshot": "one"}),
    "rescue": ("rescue", {**AT_REST, "berth_rescue_image": "rescue"}),
    "backup": ("backup", {**AT_REST, **BACKUPS}),
    "backups": ("backups", {**AT_REST, **BACKUPS}),
    "image_from_instance": ("image_from_instance", {"berth_instances": ["at-rest-h1"], "berth_new_image": "golden"}),
    "restore": ("restore", {**AT_REST, "berth_backup": "20260102T030405Z", **BACKUPS}),
    "resize": ("resize", {"berth_instances": ["at-rest-h1", "at-rest-h2"], "flavor": "big"}),
    "migrate from the liar": ("cold_migrate", {"berth_instances": ["at-rest-h1"], "berth_target_host": "h3"}),
    "migrate past the liar": ("cold_migrate", {"berth_instances": ["at-rest-h2"], "berth_target_host": "h3"}),
    "live_migrate": ("live_migrate", {"berth_instances": ["at-rest-h1"]}),
    "confirm": ("confirm_resize", AT_REST),
    "confirm_due": ("confirm_due", AT_REST),
    "revert": ("revert_resize", AT_REST),
    "doctor that mends": ("doctor", {"berth_fix": True}),
    "report": ("report", {}),
    "show": ("show", {}),
    "show_volume": ("show", {"berth_volume": "db-h2"}),
    "events": ("events", {}),
    "delete_volume": ("delete_volume", {"berth_volume": "spare-h2"}),
    "remove_host": ("remove_host", {"berth_remove_host": "h3"}),
}  # fmt: skip


@contextlib.contextmanager
def in_memory(run):
    """The actions ask the hosts in memory, what they show is noted, and nonces are counted."""
    nonces = itertools.count(1)
    heard = run.texts.append
    with contextlib.ExitStack() as stack:

        def patch(*what):
            stack.enter_context(mock.patch.object(*what))

        patch(delegates, "run_on", run.fleet.run_on)
        patch(Display, "display", lambda _self, text, *_args, **_more: heard(str(text)))
        patch(Display, "warning", lambda _self, text, *_args, **_more: heard(str(text)))
        patch(acting, "RUN", "r-1")
        patch(screen, "verbosity", lambda: 0)
        patch(moving_instances, "new_key", lambda: "k" * 64)
        state = stack.enter_context(tempfile.TemporaryDirectory())
        patch(os, "environ", {**os.environ, "XDG_STATE_HOME": state})
        for module in NONCES:
            patch(module, "new_token", lambda: "%032x" % (0xF << 120 | next(nonces)))
        yield


def play(name, lie=None):
    playbook, variables = RUNS[name]
    run = Run(playbook, lie, **variables)
    with in_memory(run):
        run.play()
    return run
