# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An evacuation names the newest whole backup of what was on the lost host's own disks, and makes nothing anew by itself."""

from __future__ import annotations

import datetime

import pytest
from placement_case import VM, controller, facts

from ansible_collections.berth.kvm.plugins.module_utils.conductor.outcome_of_create import outcomes
from ansible_collections.berth.kvm.plugins.module_utils.model.backups import TIME
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils import delegates

LOST = {"host": "h9", "host_uuid": "99999999-3c6e-5d59-9d0b-3a1c9d7f1e2a"}
OWNER = {"known": {**LOST, "generation": [1, 4]}, "planned": [], "after": 0, "gone": None, "left": None}
WEB = instance_uuid("default", "web")
HOURS = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=3, minutes=20)
NEWEST = HOURS.strftime(TIME)


def backup(made, *faults):
    return {"id": made, "kind": "full", "previous": None, "bytes": 9, "of": "web", "frozen": True, "files": [], "why": [],
            "faults": list(faults)}  # fmt: skip


ALL = [backup("20260102T030405Z"), backup(NEWEST), backup("99990102T030405Z", "root.qcow2 is not there")]


@pytest.fixture
def asked(monkeypatch):
    """(host, module) of who is asked for backups."""
    found = []

    def run_on(hosts, module, arguments, *_more, at=None):
        found.extend(
            ((at or {}).get(name, name), module.rpartition(".")[2], arguments[name]["state"]) for name in hosts
        )
        told = {"uuid": WEB, "backups": ALL, "changed": False}
        return {name: told if module.endswith("backup_store") else {**told, "instance": told} for name in hosts}

    monkeypatch.setattr(delegates, "run_on", run_on)
    return found


def evacuate(seen=(), asked=None, **variables):
    run = {"berth_lost_hosts": "h9", **({} if asked is None else {"berth_evacuate_from_backup": asked})}
    it = controller({"web": {**VM, "berth_networks": [], **variables}}, run, silent=["h9"])
    it.inventory.add_group("berth_backup_hosts")
    it.inventory._inventory.add_host("backup1", group="berth_backup_hosts")
    told = {
        "h1": {"ansible_facts": facts("h1"), "notes": {WEB: OWNER}, "attached": list(seen)},
        "h2": {"ansible_facts": facts("h2"), "attached": []},
        "h9": {"reason": "UNREACHABLE: no route to host"},
    }
    it.register("localhost", __berth_facts={"answers": told})
    return it.run("placement", {"instances": ["web"], "plan": True, "take_over": True})


def test_the_newest_whole_one_is_named_with_its_age_by_the_backup_host(asked):
    error = evacuate(berth_backup_to="/srv/backups", berth_backup_host="backup1")["failures"]["web"]
    assert error["code"] == "DisksNotShared" and "on h9, and no host that answers sees them" in error["message"]
    assert "Its newest whole backup is %s in backup1:/srv/backups, 3 h old" % NEWEST in error["message"]
    assert "-e berth_evacuate_from_backup=true" in error["hint"]
    assert asked == [("backup1", "backup_store", "listed")]


def test_who_asks_for_it_has_it_made_again_from_that_backup_in_a_later_epoch(asked):
    done = evacuate(asked=True, berth_backup_to="/srv/backups", berth_backup_host="backup1")
    plan = done["ansible_facts"]["berth_plan"]
    made = plan["instances"]["web"]
    assert made["spec"]["shelved"] == {"backup": NEWEST, "to": "/srv/backups", "host": "backup1"}
    assert made["spec"]["evacuated_from"] == LOST["host_uuid"] and "take_over" not in made
    ((claim,),) = plan["claims"].values()
    assert claim["spec"]["shelved"] == made["spec"]["shelved"] and claim["after"][0] >= 1
    line = outcomes({**plan, "instances": {"web": {**made, "state": "planned"}}}, check_mode=True)[0]
    assert line.state == "would be made"
    assert line.why.startswith("made again from its backup %s in backup1:/srv/backups, 3 h old; " % NEWEST)


def test_who_asks_for_it_without_a_whole_backup_is_refused(asked, monkeypatch):
    monkeypatch.setitem(globals(), "ALL", [ALL[-1]])
    error = evacuate(asked=True, berth_backup_to="/mnt/backup")["failures"]["web"]
    assert error["code"] == "DisksNotShared" and "has no whole backup of it" in error["message"]
    assert "berth_rebuild_lost" in error["hint"] and "berth_evacuate_from_backup" not in error["hint"]


def test_without_a_backup_host_a_kvm_host_that_answers_is_asked(asked):
    error = evacuate(berth_backup_to="/mnt/backup")["failures"]["web"]
    assert "in h1:/mnt/backup, 3 h old" in error["message"] and asked == [("h1", "instance_backup", "listed")]


def test_where_the_inventory_names_no_backups_it_says_so_and_asks_nobody(asked):
    error = evacuate()["failures"]["web"]
    assert "names no directory of its backups (berth_backup_to)" in error["message"] and asked == []


def test_what_a_host_sees_is_taken_over_and_no_backup_is_looked_for(asked):
    seen = {"uuid": WEB, "owner": LOST["host_uuid"], "volumes": [], "nics": []}
    done = evacuate([seen], berth_backup_to="/mnt/backup")
    assert done["ansible_facts"]["berth_plan"]["instances"]["web"]["take_over"] == LOST["host_uuid"] and asked == []
