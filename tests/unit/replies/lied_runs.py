# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each playbook does, with the actions that ship, on a controller and hosts in memory: see lied_fleet.py.

What a playbook or role does between two actions is done here in Python; what the hosts are asked by it is noted.
"""

from __future__ import annotations

import contextlib
import itertools
from unittest import mock

import good
import lied_fleet
from ansible.errors import AnsibleError
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

    def __init__(self, lie=None, limit=None, more=None, **of_run):
        self.fleet, self.texts = lied_fleet.Fleet(lie), []
        self.it = lied_fleet.controller(more)
        self.limit = list(limit or self.it.named)
        self.of_run = {"berth_lost_hosts": [], **of_run}

    @property
    def asked(self):
        return self.fleet.asked

    def values(self):
        return {
            **self.it.task_vars(),
            **OPTIONS,
            **self.of_run,
            "ansible_play_hosts_all": self.limit,
            "ansible_play_hosts": self.limit,
        }

    def run(self, _name, of=None, **arguments):
        """``of``: the instance whose task it is; others are of the controller."""
        values = {**self.values(), **({"inventory_hostname": of} if of else {})}
        result = self.it.run(_name, arguments, values)
        if result.get("failed"):
            self.texts.append(str(result.get("msg")))
            self.texts.append(str((result.get("error") or {}).get("hint") or ""))
        if "ansible_facts" in result:
            self.it.variable_manager.set_host_facts("localhost", result["ansible_facts"])
        return result

    def fact(self, name):
        return self.it.task_vars()["hostvars"].raw_get("localhost")["ansible_facts"].get(name)

    def read(self, **more):
        read = self.run("read_hosts", instances=more.pop("about", self.it.named), hosts=list(good.HOSTS), **more)
        self.it.register("localhost", __berth_facts=read)
        return not read.get("failed")

    def ask(self, host, module, **given):
        """A task of a playbook with ``delegate_to``."""
        result = self.fleet.ask(host, module, given)
        if result.get("failed") or result.get("unreachable"):
            self.texts.append("%s: %s" % (host, result.get("msg")))
        return result


def create(run):
    run.limit = ["new-1", "new-2"]
    if not run.read(looks=True, digests=True):
        return
    if run.run("placement", instances=run.limit, hosts=list(good.HOSTS), plan=True).get("failed"):
        return
    if run.fact("berth_plan")["claims"] or run.fact("berth_plan")["build"]:
        done = run.run("create_instances", may_fail=True, of="new-1")
        run.texts += [each["error"] for each in done.get("outcomes", ()) if each["error"]]


def located(run, method, **more):
    if not run.read():
        return {}
    found = run.run("locate_instances", instances=run.limit, hosts=list(good.HOSTS), method=method, **more)
    if found.get("failed"):
        return {}
    made = run.fact("berth_located")
    run.texts += [*made["errors"].values(), *filter(None, made["notes"].values())]
    return made


def operation(method):
    def play(run):
        found = located(run, method)
        if found:
            done = run.run("operate_instances", of=found["names"][0], operation=method, may_fail=True)
            run.texts += [each["error"] for each in done.get("outcomes", ()) if each["error"]]

    return play


def moves(action, **of_plan):
    def play(run):
        plan_and_walk(run, action, run.limit, **of_plan)

    return play


def plan_and_walk(run, action, names, **of_plan):
    if not run.read(moves=True, digests=True):
        return
    given = {"instances": names, "hosts": list(good.HOSTS), "action": action, **of_plan}
    if run.run("plan_moves", **given).get("failed"):
        return
    made = run.fact("berth_moves")
    run.texts += list(made["errors"].values())
    for name in made["names"]:
        done = run.run("move_instances", of=name, operation=action, hosts=list(good.HOSTS), may_fail=True)
        run.texts.append(str(done.get("failure") or ""))


def doctor(run):
    if run.read(about=[], most=0, checkup=True, fix=True, must_answer=False):
        run.run("doctor", hosts=list(good.HOSTS), asked=[1000.0, 1000.0])


def report(run):
    if run.read(about=[], most=0, checkup=True, moves=True, addresses=True, must_answer=False):
        run.run("fleet_report", hosts=list(good.HOSTS))


def show(run):
    if run.read():
        run.run("show_instances", instances=run.limit, hosts=list(good.HOSTS))


def show_volume(run):
    if run.read():
        run.run("show_volume", name="db-h2", hosts=list(good.HOSTS))


def events(run):
    if run.read():
        run.run("show_events", hosts=list(good.HOSTS))


def delete_volume(run):
    if run.read():
        run.run("delete_volume", name="spare-h2", hosts=list(good.HOSTS))


def remove_host(run):
    if run.read(about=run.it.named):
        run.run("remove_host", name="h3", directory="/nonexistent", hosts=list(good.HOSTS))


# ---- the runs --------------------------------------------------------------------------------------------------------

REST = [*lied_fleet.AT_REST, "resized"]
BIG_VOLUMES = {"berth_volumes_defined": {"db-" + host: {"size_gb": 30} for host in good.HOSTS}}
BACKUPS = {"berth_backup_to": "/b"}
RUNS = {
    "create": (create, {}),
    "stop": (operation("stop"), {"limit": REST}),
    "start": (operation("start"), {"limit": REST}),
    "delete": (operation("delete"), {"limit": REST}),
    "delete what a lost host had": (operation("delete"), {"limit": [*REST, "new-1"], "berth_lost_hosts": ["h9"]}),
    "recover_record": (operation("recover_record"), {"limit": REST}),
    "update_disks": (operation("update_disks"), {"limit": REST}),
    "update_disks grows": (operation("update_disks"), {"limit": REST, "more": BIG_VOLUMES}),
    "update": (operation("update"), {"limit": REST}),
    "snapshot": (operation("snapshot"), {"limit": REST, "berth_snapshot": "two"}),
    "snapshots": (operation("snapshots"), {"limit": REST}),
    "revert_snapshot": (operation("revert_snapshot"), {"limit": REST, "berth_snapshot": "one"}),
    "delete_snapshot": (operation("delete_snapshot"), {"limit": REST, "berth_snapshot": "one"}),
    "backup": (operation("backup"), {"limit": REST, **BACKUPS}),
    "backups": (operation("backups"), {"limit": REST, **BACKUPS}),
    "image_from_instance": (operation("image_from_instance"), {"limit": REST, "berth_new_image": "golden"}),
    "restore": (operation("restore"), {"limit": REST, "berth_backup": "20260102T030405Z", **BACKUPS}),
    "resize": (moves("resize"), {"limit": ["at-rest-h1", "at-rest-h2"], "flavor": "big"}),
    "migrate from the liar": (moves("cold_migrate", target="h3"), {"limit": ["at-rest-h1"]}),
    "migrate past the liar": (moves("cold_migrate", target="h3"), {"limit": ["at-rest-h2"]}),
    "live_migrate": (moves("live_migrate"), {"limit": ["at-rest-h1"]}),
    "confirm": (moves("confirm"), {"limit": REST}),
    "confirm_due": (moves("confirm_due"), {"limit": REST}),
    "revert": (moves("revert"), {"limit": REST}),
    "doctor that mends": (doctor, {}),
    "report": (report, {}),
    "show": (show, {}),
    "show_volume": (show_volume, {}),
    "events": (events, {}),
    "delete_volume": (delete_volume, {}),
    "remove_host": (remove_host, {}),
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
        for module in NONCES:
            patch(module, "new_token", lambda: "%032x" % (0xF << 120 | next(nonces)))
        yield


def play(name, lie=None):
    playbook, options = RUNS[name]
    options = dict(options)
    flavor = options.pop("flavor", None)
    run = Run(lie, **options)
    for instance in run.limit if flavor else ():
        run.it.inventory.hosts[instance].set_variable("berth_flavor", flavor)
    with in_memory(run):
        try:
            playbook(run)
        except AnsibleError as error:
            run.texts.append(str(error))
    return run
