# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the actions of the playbooks do over a registry: which hosts they ask, what they tell it, and what they refuse."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

import pytest
from controller import Controller
from placement_case import CATALOG, VM, facts

TESTS = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TESTS / "protocol"), str(TESTS / "unit" / "plugins" / "module_utils")]
import history_engine  # noqa: E402
from memory_engine import MemoryEngine  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Transact  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import hosts, keys  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model import nics  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid  # noqa: E402
from ansible_collections.berth.kvm.plugins.plugin_utils import delegates, guest_addresses, registry_access  # noqa: E402

NAMES = ("h1", "h2", "h3")
WEB = instance_uuid("default", "web")
MARK = {"kind": "etcd", "incarnation": "one"}
SILENT = {"unreachable": True, "msg": "no route"}


def of_host(name):
    return facts(name)["berth_host"]["uuid"]


class Fleet:
    """Three hosts that the registry knows. ``asked``: (host, module, arguments); ``has``: host -> its instances; ``notes``: what
    each remembers."""

    def __init__(self, monkeypatch):
        self.engine, self.asked, self.has, self.silent, self.notes = MemoryEngine(), [], {}, set(), {}
        self.engine.transact(Transact(writes=(keys.written(keys.META, history_engine.META),)))
        for name in NAMES:
            self.know(name)
        monkeypatch.setattr(delegates, "run_on", self.run_on)
        monkeypatch.setattr(guest_addresses, "find", lambda *_given: None)
        monkeypatch.setattr(registry_access, "members_of_run", lambda _action, _vars: [("m", 2379)])
        monkeypatch.setattr(
            registry_access,
            "of_run",
            lambda action, _vars, _hosts: registry_access.Access(self.engine, action._task.check_mode),
        )

    def know(self, name):
        history_engine.carried_out(self.engine, hosts.report(name, self.document(name), 0.0, still=True))

    def document(self, name):
        held = self.has.get(name, [])
        return {**facts(name)["berth_host"], "instances": held, "num_instances": len(held)}

    def run_on(self, asked, module, given, _task, *_limits, at=None, **_more):
        module = module.removeprefix("berth.kvm.")
        hosts_of = {each: (at or {}).get(each, each) for each in asked}
        self.asked += [(host, module, given[each]) for each, host in hosts_of.items()]
        return {
            each: SILENT if host in self.silent else self.reply(host, module, given[each])
            for each, host in hosts_of.items()
        }

    def reply(self, name, module, given):
        if module == "host_facts":
            return {"changed": False, "ansible_facts": {"berth_host": self.document(name)}, "notes": self.notes}
        if module == "claim":
            results = [self.claimed(name, each) for each in given.get("claims", ())]
            return {"changed": True, "results": results}
        if module == "build_instances":
            return {"changed": True, "builds": [self.built(name, each) for each in given["builds"]]}
        if module == "instance" and given["state"] == "absent":
            self.has[name] = []
        return {"changed": True, "instances": []}

    def claimed(self, name, claim):
        return {"uuid": claim["spec"]["uuid"], "name": claim["spec"]["name"], "claimed": True, "changed": True,
                "token": claim["token"], "allocation": {}, "error": None}  # fmt: skip

    def built(self, name, build):
        self.has[name] = [held(build["uuid"])]
        made = {"uuid": build["uuid"], "generation": [1, 4], "vm_state": "active"}
        return {"uuid": build["uuid"], "reply": {"changed": True, "instance": made}}

    def rescans(self):
        """Hosts say what they have, with what an update or a rename has brought."""
        reply = self.reply

        def answer(name, module, given):
            if module == "rescan":
                return {
                    "changed": False,
                    "host_uuid": of_host(name),
                    "instances": self.has.get(name, []),
                    "volumes": [],
                }
            if module == "instance" and given["state"] in ("updated", "renamed"):
                named = {"own_name": given["new_name"]} if given["state"] == "renamed" else {}
                networks = nics.taken((given.get("spec") or {}).get("networks"))
                self.has[name] = [{**each, **named, "nics": networks} for each in self.has[name]]
                return {"changed": True, "instance": {"uuid": given["uuid"]}}
            return reply(name, module, given)

        self.reply = answer

    def modules(self):
        return [(name, module) for name, module, _given in self.asked]

    def entry(self, uuid=WEB):
        found = self.engine.keys.get(keys.instance(uuid))
        return found and keys.document(keys.instance(uuid), found)

    # what a user runs

    def controller(self, **variables):
        given = {"all": {**CATALOG, **variables}, "web": VM}
        return Controller({"kvm_hosts": list(NAMES), "instances": ["web"]}, given)

    def read(self, operation, **more):
        """The task that reads, and the controller of the run."""
        it = self.controller(**more)
        read = it.run("read_hosts", {"instances": ["web"], "operation": operation})
        if not read.get("failed"):
            it.register("localhost", __berth_facts=json.loads(json.dumps(read)))
        return it, read

    def create(self, check_mode=False):
        it = self.controller()
        values = {**it.task_vars(), **it.hostvars.raw_get("web"), "inventory_hostname": "web"}
        return it.run("create_instances", {"may_fail": True}, values, check_mode)

    def operate(self, operation, check_mode=False, **variables):
        it, read = self.read(operation, **variables)
        if read.get("failed"):
            return read
        located = it.run("locate_instances", {"instances": ["web"], "method": operation})
        it.variable_manager.set_host_facts("localhost", located["ansible_facts"])
        values = {**it.task_vars(), **it.hostvars.raw_get("web"), "inventory_hostname": "web"}
        return it.run("operate_instances", {"operation": operation, "may_fail": True}, values, check_mode)


TINY = {"name": "tiny", "vcpus": 1, "memory_mb": 128, "root_gb": 1}


def held(uuid, **more):
    return {
        "uuid": uuid, "name": "web", "project_id": "default", "flavor": TINY, "group": None, "role": "OWN",
        "generation": [1, 4], "phase": "active", "vm_state": "active", "task_state": None, "power_state": "running",
        "foreign": False, "vcpus": 1, "pcpus": 0, "memory_mb": 128, "disk_gb": 1, "pool": None, "image_props": {},
        "nics": [], **more,
    }  # fmt: skip


def code_of(result):
    return result.get("error_code") or (result.get("error") or {}).get("code")


@pytest.fixture
def fleet(monkeypatch):
    return Fleet(monkeypatch)


@pytest.fixture
def created(fleet):
    result = fleet.create()
    assert "error" not in result, result
    fleet.asked.clear()
    return fleet


def test_a_create_asks_only_the_host_that_it_chose_and_the_registry_knows_the_owner(fleet):
    result = fleet.create()
    assert "error" not in result, result
    ((host, _first), *_rest) = fleet.modules()
    assert fleet.modules() == [(host, "claim"), (host, "build_instances")]
    assert (fleet.entry()["owner"], fleet.entry()["epoch"], fleet.entry()["pending"]) == (of_host(host), 1, [])


def test_a_host_is_told_which_machine_the_registry_means(fleet):
    fleet.create()
    host, given = next((host, given) for host, module, given in fleet.asked if module == "claim")
    assert [each["host_uuid"] for each in given["claims"]] == [of_host(host)]


def test_hosts_are_told_over_which_registry_the_run_works(fleet):
    fleet.create()
    for _host, _module, given in fleet.asked:
        mark = given["registry"]
        assert {**MARK, "revision": mark["revision"]} == mark and mark["revision"] > 1


def test_a_second_create_asks_the_owner_and_changes_nothing_in_the_registry(created):
    revision = created.engine.revision
    created.create()
    assert {module for _host, module in created.modules()} == {"host_facts", "build_instances"}
    assert len({host for host, _module in created.modules()}) == 1
    assert created.engine.revision == revision


def test_check_mode_reserves_nothing(fleet):
    revision = fleet.engine.revision
    fleet.create(check_mode=True)
    assert fleet.engine.revision == revision and fleet.modules() == []


def test_a_create_is_refused_before_any_host_is_asked_while_the_registry_gives_no_answer(fleet):
    fleet.engine.away = True
    assert code_of(fleet.create()) == "RegistryUnknown" and fleet.asked == []


def test_a_stop_asks_the_owner_alone(created):
    (host,) = created.has
    created.operate("stop")
    assert created.modules() == [(host, "host_facts"), (host, "instance")]


def test_a_stop_asks_all_hosts_while_the_registry_gives_no_answer(created):
    (host,) = created.has
    created.engine.away = True
    created.operate("stop")
    assert created.modules() == [*((name, "host_facts") for name in NAMES), (host, "instance")]


@pytest.mark.follows("compare_all_hosts")
def test_a_closed_registry_is_not_believed(created):
    """It was restored from a backup: somebody may have moved or deleted what it knows since."""
    (host,) = created.has
    closed = keys.written(keys.META, {**history_engine.META, "open": False})
    created.engine.transact(Transact(writes=(closed,)))
    assert code_of(created.create()) == "RegistryClosed" and created.asked == []
    created.operate("stop")
    assert created.modules() == [*((name, "host_facts") for name in NAMES), (host, "instance")]
    created.engine.transact(Transact(writes=(keys.written(keys.META, history_engine.META),)))  # as an audit does
    assert "error" not in created.create()


def test_a_delete_gives_back_what_the_instance_held_in_the_registry(created):
    (host,) = created.has
    created.operate("delete")
    assert created.modules() == [(host, "host_facts"), (host, "instance")]
    assert (created.entry()["owner"], created.entry()["holds"], created.entry()["epoch"]) == (None, [], 1)


def test_a_delete_in_check_mode_leaves_the_registry_as_it_is(created):
    before = dict(created.engine.keys)
    created.operate("delete", check_mode=True)
    assert created.engine.keys == before


def test_a_delete_of_what_its_host_has_removed_already_tells_the_registry(created):
    """The run that removed it was killed before it told."""
    created.has = dict.fromkeys(created.has, [])
    created.notes = {WEB: {"known": None, "planned": [], "after": 0, "gone": [1, 4], "left": None}}
    created.operate("delete")
    assert created.entry()["owner"] is None and created.entry()["holds"] == []


def test_a_delete_is_refused_before_any_host_is_asked_while_the_registry_gives_no_answer(created):
    created.engine.away = True
    assert created.operate("delete").get("error_code") == "RegistryUnknown"
    assert created.asked == []


def test_nothing_is_said_of_an_instance_whose_owner_is_silent(created):
    created.silent = set(created.has)
    result = created.operate("delete")
    assert "InstanceUnknown" in result["msg"] or "HostU" in result["msg"], result
    assert created.entry()["owner"]


def test_a_host_that_was_given_up_as_lost_is_asked_again_and_may_still_be_away(created):
    (lost,) = created.has
    created.silent = {lost}
    created.operate("delete", berth_lost_hosts=lost)
    assert created.entry()["owner"] is None and created.entry()["given_up"] == [of_host(lost)]
    created.asked.clear()
    assert "error" not in created.create()
    assert (lost, "host_facts") in created.modules() and of_host(lost) != created.entry()["owner"]
    created.has.pop(lost)
    (host,) = created.has
    created.asked.clear()
    created.operate("stop")
    assert (host, "instance") in created.modules()


@pytest.mark.follows("delete_old_copy")
def test_an_old_copy_on_a_host_that_is_back_is_no_instance_until_a_person_has_deleted_it(created):
    (lost,) = created.has
    copy = created.has[lost]
    created.silent = {lost}
    created.operate("delete", berth_lost_hosts=lost)
    created.silent = set()
    result = created.create()
    assert code_of(result) == "RecordOutdated"
    refused = result["error"]
    assert "delete --limit web" in refused["hint"]
    assert created.has[lost] == copy and created.entry()["owner"] is None
    created.operate("delete")
    assert created.has[lost] == [] and "error" not in created.create()


def killed_create(fleet, monkeypatch):
    """It dies with the intent in the registry, when it asks the host that is to have the instance, whose uuid is returned."""

    def dies(_name, _claim):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fleet, "claimed", dies)
        with pytest.raises(KeyboardInterrupt):
            fleet.create()
    (intent,) = fleet.entry()["pending"]
    return intent["host"]


def test_what_a_host_remembers_of_another_one_does_not_count(created, monkeypatch):
    """It gave the instance away, and never heard that it was deleted there; that host is not asked."""
    created.operate("delete")
    asked = killed_create(created, monkeypatch)
    other = next(name for name in NAMES if of_host(name) != asked)
    known = {"host": other, "host_uuid": of_host(other), "generation": [1, 0]}
    created.notes = {WEB: {"known": known, "planned": [], "after": 0, "gone": None, "left": [1, 0]}}
    result = created.create()
    assert "error" not in result and created.entry()["owner"], result


def test_a_full_quota_keeps_no_create_from_being_run_again(fleet, monkeypatch):
    monkeypatch.setattr(
        fleet, "controller", functools.partial(fleet.controller, berth_quotas={"default": {"instances": 1}})
    )
    killed_create(fleet, monkeypatch)
    result = fleet.create()
    assert "error" not in result and fleet.entry()["owner"], result


@pytest.mark.parametrize("operation", ["start", "recover", "reboot"])
def test_without_the_registry_an_old_copy_is_not_started_beside_a_host_that_may_have_the_instance(created, operation):
    """Over a registry no other host remembers who has it."""
    (lost,) = created.has
    copy = [{**each, "vm_state": "stopped", "power_state": "shutdown"} for each in created.has.pop(lost)]
    created.silent = {lost}
    created.operate("delete", berth_lost_hosts=lost)
    assert "error" not in created.create()
    (owner,) = created.has
    created.has[lost], created.silent, created.engine.away = copy, {owner}, True
    created.asked.clear()
    result = created.operate(operation)
    assert (lost, "instance") not in created.modules() and owner in result.get("msg", "")
    created.operate(operation, berth_lost_hosts=owner)  # nobody else has it, says a person
    assert ((lost, "instance") in created.modules()) == (operation != "recover")


@pytest.mark.parametrize("stays", ["first", "second"])
def test_the_registry_hears_which_of_two_copies_stays(created, stays):
    (first,) = created.has
    second = next(name for name in NAMES if name != first)
    off = {**created.has[first][0], "vm_state": "stopped", "power_state": "shutdown"}
    created.has.update({first: [off], second: [{**off, "generation": [2, 4]}]})
    stays = {"first": first, "second": second}[stays]
    reply = created.reply

    def answer(name, module, given):
        if module == "instance_copy":
            copy = {**created.has[name][0], "generation": [3, 0]}
            created.has[name] = [] if given["state"] == "set_aside" else [copy]
            return {"changed": True}
        if module == "rescan":
            return {"changed": False, "host_uuid": of_host(name), "instances": created.has.get(name, [])}
        return reply(name, module, given)

    created.reply = answer
    created.operate("keep_one", berth_keep_on=stays)
    assert (created.entry()["owner"], created.entry()["epoch"]) == (of_host(stays), 3)


def view_of(flavor=None, **more):
    """What a host says of its record of web, which is at rest."""
    spec = {"uuid": WEB, "name": "web", "project_id": "default", "flavor": flavor or TINY, "networks": [], "group": None, "pool": None,
            "image": {"name": "guest", "id": "guest", "min_disk": 0, "min_ram": 0, "properties": {}}}  # fmt: skip
    return {"uuid": WEB, "name": "web", "project_id": "default", "role": "OWN", "phase": "active", "op": None, "attempt": 0,
            "generation": [1, 4], "spec": spec, "vm_state": "active", "task_state": None,
            "migration": None, "running": True, **more}  # fmt: skip


def moved(created, operation="cold_migrate", check_mode=False):
    """What a run returns that moves web. Its source refuses the first leg."""
    reply = created.reply

    def answer(name, module, given):
        found = {"failed": True, "error": BUSY} if module == "migration" else reply(name, module, given)
        moves = [view_of()] if created.has.get(name) else []
        return {**found, "moves": moves} if module == "host_facts" else found

    created.reply = answer
    it = created.controller()
    values = {**it.task_vars(), **it.hostvars.raw_get("web"), "inventory_hostname": "web", "berth_instances": "web",
              "ansible_play_hosts": ["web"]}  # fmt: skip
    return it.run("move_instances", {"operation": operation, "may_fail": True}, values, check_mode)


BUSY = {"code": "InstanceBusy", "message": "another run has it", "hint": None}


def test_a_move_asks_the_owner_alone_and_chooses_by_what_the_registry_has_of_the_others(created):
    (source,) = created.has
    result = moved(created)
    assert "InstanceBusy" in result["msg"], result
    assert created.modules() == [(source, "host_facts"), (source, "migration")]
    leg = created.asked[-1][2]
    assert leg["steps"] == ["begin"] and leg["destination"]["name"] in set(NAMES) - {source}
    assert {**MARK, "revision": leg["registry"]["revision"]} == leg["registry"]
    assert (created.entry()["owner"], created.entry()["pending"]) == (of_host(source), [])


def test_what_a_move_takes_is_in_the_registry_before_its_first_leg(created, monkeypatch):
    seen, run_on = [], created.run_on

    def watched(asked, module, *given, **more):
        seen.append([each["kind"] for each in created.entry()["pending"]] if module.endswith("migration") else None)
        return run_on(asked, module, *given, **more)

    monkeypatch.setattr(delegates, "run_on", watched)
    moved(created)
    assert seen == [None, [keys.MOVE]]


def test_a_move_in_check_mode_reserves_nothing(created):
    before = dict(created.engine.keys)
    moved(created, check_mode=True)
    assert created.engine.keys == before and created.modules()[-1][1] == "migration"


@pytest.mark.parametrize("operation", ["resize", "cold_migrate", "live_migrate", "confirm", "revert"])
def test_a_move_is_refused_before_any_host_is_asked_while_the_registry_gives_no_answer(created, operation):
    created.engine.away = True
    _it, read = created.read(operation)
    assert read.get("error_code") == "RegistryUnknown" and created.asked == []


def test_a_host_that_a_move_names_is_asked_although_the_registry_does_not_know_of_it(created):
    (source,) = created.has
    other = next(name for name in NAMES if name != source)
    sides = {
        "source": {"uuid": of_host(source), "name": source},
        "destination": {"uuid": of_host(other), "name": other},
    }
    reply = created.reply
    begun = view_of(phase="resizing", migration={"type": "resize", **sides})
    created.reply = lambda name, *given: {**reply(name, *given), "moves": [begun] if name == source else []}
    created.read("confirm")
    assert created.modules() == [(source, "host_facts"), (other, "host_facts")]


@pytest.mark.parametrize(
    "decision",
    [
        "apply_plan",
        "fence_host",
        "maintain_host",
        "plan_maintenance",
        "plan_fleet",
        "remove_host",
        "rolling_reboot",
        "watch",
    ],
)
def test_what_plans_for_whole_hosts_asks_all_of_them(created, decision):
    _it, read = created.read(decision)
    assert not read.get("failed") and sorted(created.modules()) == [(name, "host_facts") for name in sorted(NAMES)]


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_host_that_is_removed_is_forgotten_by_the_registry(created, tmp_path, check_mode):
    free = next(name for name in NAMES if not created.has.get(name))
    cleaned, reply = {"changed": True, "removed": ["/etc/berth/host.json"], "left": [], "restart": []}, created.reply
    created.reply = lambda name, module, given: cleaned if module == "host_clean" else reply(name, module, given)
    it, _read = created.read("remove_host", berth_ca_directory=str(tmp_path))
    done = it.run("remove_host", {"name": free}, check_mode=check_mode)
    assert done["changed"] and done["removed"] == cleaned["removed"]
    there = {keys.host(of_host(free)), keys.facts(of_host(free))} & set(created.engine.keys)
    assert len(there) == (2 if check_mode else 0)


@pytest.mark.parametrize("operation", ["adopt", "clone", "leave", "rename", "update", "update_disks"])
def test_what_others_may_want_is_not_taken_while_the_registry_gives_no_answer(created, operation):
    created.engine.away = True
    _it, read = created.read(operation)
    assert read.get("error_code") == "RegistryUnknown" and created.asked == []


def test_an_update_asks_the_owner_alone_and_takes_a_new_address_in_the_registry(created):
    (host,) = created.has
    networks = {"lan": {"type": "bridge", "source": "br0"}}
    created.rescans()
    result = created.operate(
        "update", berth_networks_defined=networks, berth_networks=[{"network": "lan", "address": "192.0.2.10/24"}]
    )
    assert "error" not in result, result
    assert {name for name, _module in created.modules()} == {host}
    assert [given.get("only_claim", False) for _name, module, given in created.asked if module == "instance"] == [
        True,
        False,
    ]
    assert keys.of_nic("address 192.0.2.10 on bridge br0") in created.engine.keys


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_rename_asks_the_owner_alone_and_the_registry_has_the_new_name(created, check_mode):
    (host,) = created.has
    created.rescans()
    before = dict(created.engine.keys)
    result = created.operate("rename", check_mode, berth_new_name="db")
    assert "error" not in result, result
    assert {name for name, _module in created.modules()} == {host}
    if check_mode:
        assert created.engine.keys == before
    else:
        assert created.entry()["name"] == "db" and keys.name("default", "db") in created.entry()["holds"]


def test_a_rename_to_the_name_of_an_instance_that_the_registry_knows_elsewhere_is_refused(created):
    (host,) = created.has
    other = instance_uuid("default", "db")
    at = next(of_host(name) for name in NAMES if name != host)
    entry = {**keys.new_instance("db", "default"), "owner": at, "epoch": 1}
    created.engine.transact(Transact(writes=(keys.written(keys.instance(other), entry),)))
    result = created.operate("rename", berth_new_name="db")
    assert code_of(result) == "RecordMissing" and "instance" not in {module for _host, module in created.modules()}


def test_a_leave_gives_back_what_the_instance_held_in_the_registry(created):
    (host,) = created.has
    created.operate("leave")
    assert created.modules() == [(host, "host_facts"), (host, "instance")]
    assert (created.entry()["owner"], created.entry()["holds"], created.entry()["epoch"]) == (None, [], 1)


def test_what_only_looks_asks_all_hosts_and_not_the_registry(created):
    created.engine.away = True
    _it, read = created.read("show")
    assert set(read["answers"]) == set(NAMES) and "known" not in read
