# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The builds of a plan: each host is asked once for all of its instances, and each instance's task tells its own part."""

from __future__ import annotations

import concurrent.futures
import json
import secrets
import time
from types import SimpleNamespace

import pytest
from ansible.template import trust_as_template
from controller import Controller
from placement_case import CATALOG, VM

from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import WorkEnded
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils import delegates, guest_addresses, shared_task

HOST_OF = {"web-1": "kvm1", "web-2": "kvm1", "db-1": "kvm2"}
SECRET = "#cloud-config\npassword: wholly-secret\n"
NIC = {"mac": "02:00:00:00:00:01", "mtu": None, "address": "192.0.2.7/24", "gateway": "192.0.2.1", "nameservers": []}


def uuid_of(name):
    return "uuid-of-" + name


def plan(**more):
    """``more``: instance without its hyphen -> what else the plan has of it."""
    instances = {
        name: {
            "uuid": uuid_of(name), "name": name, "project": "p", "host": host, "alternates": [], "attempts": [],
            "state": "building", "token": "token-of-" + name, "error": None,
            "spec": {"uuid": uuid_of(name), "name": name, "image": {"name": "guest"}, "networks": []},
            **more.get(name.replace("-", ""), {}),
        }
        for name, host in HOST_OF.items()
    }  # fmt: skip
    hosts = {host: {"uuid": "id-" + host} for host in ("kvm1", "kvm2")}
    return {
        "run": "r", "round": 1, "max_attempts": 3, "build": list(instances), "instances": instances, "claims": {},
        "hosts": hosts, "uuids": {host: of["uuid"] for host, of in hosts.items()}, "told": {}, "withdraw": {},
        "planned": [], "ended": [], "reachable": list(hosts), "faults": {}, "tell": {}, "rescan": {},
    }  # fmt: skip


class Hosts:
    """What they were asked, and what each says: of a module, or builds all that it is asked for."""

    def __init__(self, **said):
        self.asked, self.said = [], said

    def run_on(self, hosts, module, given, _task, _at_once, seconds):
        name = module.removeprefix("berth.kvm.")
        self.asked += [(host, name, given[host], seconds[host]) for host in hosts]
        return {host: self.said.get(host, {}).get(name) or self._plain(name, given[host]) for host in hosts}

    @staticmethod
    def _plain(name, given):
        builds = [built(build["uuid"]) for build in given.get("builds", ())]
        return {"changed": bool(builds), **({"builds": builds} if name == "build_instances" else {})}

    def builds(self, host):
        return [
            build
            for at, name, given, _s in self.asked
            if (at, name) == (host, "build_instances")
            for build in given["builds"]
        ]


def built(uuid, **more):
    return {"uuid": uuid, "reply": {"changed": True, "instance": {"uuid": uuid}, **more}}


@pytest.fixture
def create(monkeypatch, own_state):
    """create(plan, hosts, ...): instance -> the result of its task, of one run."""

    def run(planned=None, hosts=None, variables=None, check_mode=False, may_fail=True, role=None):
        hosts = hosts or Hosts()
        monkeypatch.setattr(delegates, "run_on", hosts.run_on)
        given = {"all": CATALOG, **{name: {**VM, "berth_user_data": SECRET} for name in HOST_OF}, **(variables or {})}
        groups = {"kvm_hosts": ["kvm1", "kvm2"], "instances": list(HOST_OF)}
        it = Controller(groups, given, {"localhost": {"berth_plan": planned or plan()}})
        task_vars = it.task_vars()
        found, task = {}, secrets.token_hex(8)
        for name in HOST_OF:
            of_it = {**task_vars, **it.hostvars.raw_get(name), **(role or {}), "inventory_hostname": name}
            found[name] = it.run("create_instances", {"may_fail": may_fail}, of_it, check_mode, uuid=task)
        return found

    return run


def test_the_first_task_creates_all_and_each_task_tells_its_own_part(create):
    hosts = Hosts()
    done = create(hosts=hosts)
    assert {name: each["instance"]["uuid"] for name, each in done.items()} == {name: uuid_of(name) for name in HOST_OF}
    assert ["outcomes" in each for each in done.values()] == [True, False, False]
    assert [(host, name) for host, name, _given, _s in hosts.asked if name == "build_instances"] == [
        ("kvm1", "build_instances"),
        ("kvm2", "build_instances"),
    ]


def test_what_each_host_is_sent_has_the_seed_the_token_and_time_for_a_large_image(create):
    hosts = Hosts()
    create(hosts=hosts)
    assert [build["uuid"] for build in hosts.builds("kvm1")] == ["uuid-of-web-1", "uuid-of-web-2"]
    assert hosts.builds("kvm2")[0]["token"] == "token-of-db-1"
    assert hosts.builds("kvm1")[0]["seed"]["user_data"] == SECRET
    assert min(seconds for _host, name, _given, seconds in hosts.asked if name == "build_instances") > 3600


def test_no_secret_is_in_any_result(create):
    assert "wholly-secret" not in json.dumps(create())


@pytest.mark.parametrize("value, sent", [(None, 600), ("20", 20)])
def test_each_build_waits_as_long_for_another_run_as_its_instance_says(create, value, sent):
    hosts = Hosts()
    create(hosts=hosts, variables={"web-1": {**VM, **({"create_timeout": value} if value else {})}})
    assert [build["timeout"] for build in hosts.builds("kvm1")] == [sent, 600]


def test_what_the_role_is_given_to_wait_holds_for_all_but_an_instance_with_a_value_of_its_own(create):
    for name, expected in ("web-1", [20, 30, 30]), ("db-1", [30, 30, 20]):
        hosts = Hosts()
        create(hosts=hosts, variables={name: {**VM, "create_timeout": 20}}, role={"create_timeout": 30})
        assert [build["timeout"] for host in ("kvm1", "kvm2") for build in hosts.builds(host)] == expected


def test_the_time_that_a_guest_has_to_shut_down_goes_to_its_host(create):
    hosts = Hosts()
    create(hosts=hosts, variables={"db-1": {**VM, "berth_shutdown_timeout": 300}})
    assert [build.get("shutdown_timeout") for host in ("kvm1", "kvm2") for build in hosts.builds(host)] == [
        None,
        None,
        300,
    ]


def test_a_host_that_falls_silent_leaves_each_of_its_builds_unknown_and_no_others(create):
    done = create(hosts=Hosts(kvm1={"build_instances": {"unreachable": True, "msg": "no route"}}))
    assert [each.get("error", {}).get("code") for each in done.values()] == ["HostUnknown"] * 2 + [None]
    assert "no route" in done["web-1"]["error"]["message"]


def test_what_the_host_says_nothing_of_may_have_been_built(create):
    done = create(hosts=Hosts(kvm1={"build_instances": {"changed": True, "builds": [built("uuid-of-web-2")]}}))
    assert done["web-1"]["error"]["code"] == "HostUnknown" and "instance" in done["web-2"]


ERROR = {"code": "BuildFailed", "message": "x", "retryable": False}
FAILED = {"uuid": "uuid-of-web-1", "reply": {"failed": True, "changed": False, "msg": "x", "error": ERROR}}
ONE_FAILS = {"build_instances": {"changed": True, "builds": [FAILED, built("uuid-of-web-2")]}}


def test_one_that_failed_says_why_and_the_others_are_built(create):
    done = create(hosts=Hosts(kvm1=ONE_FAILS))
    assert done["web-1"]["error"]["code"] == "BuildFailed" and "instance" in done["web-2"]


def test_a_build_that_failed_fails_its_task_unless_the_playbook_tells_it_itself(create):
    done = create(hosts=Hosts(kvm1=ONE_FAILS), may_fail=False)
    assert done["web-1"]["failed"] and "BuildFailed: x" in done["web-1"]["msg"]
    assert not any(done[name].get("failed") for name in ("web-2", "db-1"))


UNDEFINED = trust_as_template("{{ nowhere_defined }}")


@pytest.mark.parametrize(
    "field, value",
    [("berth_mend", "now"), *(("create_timeout", each) for each in ("soon", "", [60], {}, UNDEFINED))],
    ids=repr,
)
def test_what_cannot_be_asked_for_is_refused_by_name_and_the_others_are_built(create, field, value):
    hosts = Hosts()
    done = create(hosts=hosts, variables={"web-1": {**VM, field: value}})
    assert done["web-1"]["error"]["code"] == "InvalidInput" and field in done["web-1"]["error"]["message"]
    assert [build["uuid"] for build in hosts.builds("kvm1")] == ["uuid-of-web-2"]


@pytest.mark.parametrize("given", [True, "yes", "true"])
def test_a_run_that_is_to_mend_says_so_to_the_host(create, given):
    hosts = Hosts()
    create(hosts=hosts, variables={"db-1": {**VM, "berth_mend": given}})
    assert hosts.builds("kvm2")[0]["mend"] is True and "mend" not in hosts.builds("kvm1")[0]


@pytest.mark.parametrize("locked, token, kept", [(True, None, False), (True, "t", True), ("no", None, True)])
def test_a_host_is_not_told_to_follow_the_request_of_an_instance_that_the_inventory_locks(create, locked, token, kept):
    """What is being created gets its request: nobody has changed it yet."""
    hosts = Hosts()
    state = "building" if token else "existing"
    create(
        plan(db1={"token": token, "state": state}),
        hosts,
        {"db-1": {**VM, "berth_locked": locked, "berth_mend": True}},
    )
    (asked,) = hosts.builds("kvm2")
    assert ("spec" in asked, "mend" in asked) == (kept, kept)


def test_the_seed_has_the_address_that_the_plan_chose_with_the_gateway(create):
    """A03, C06: the inventory itself names none."""
    lan = {"lan": {"type": "bridge", "source": "br0", "cidr": "192.0.2.0/24", "gateway": "192.0.2.1", "pool": {}}}
    hosts = Hosts()
    spec = {"uuid": "uuid-of-db-1", "name": "db-1", "image": {}, "networks": [NIC]}
    create(plan(db1={"spec": spec}), hosts, {"db-1": {**VM, "berth_networks": ["lan"], "berth_networks_defined": lan}})
    static = hosts.builds("kvm2")[0]["seed"]["network_config"]["config"][0]["subnets"][0]
    assert (static["address"], static["gateway"]) == ("192.0.2.7/24", "192.0.2.1")


def test_a_network_config_of_the_users_own_is_seeded_as_it_is(create):
    hosts, own = Hosts(), {"version": 2, "ethernets": {"any": {"match": {"name": "e*"}, "dhcp4": True}}}
    create(hosts=hosts, variables={"db-1": {**VM, "berth_network_config": own}})
    assert hosts.builds("kvm2")[0]["seed"]["network_config"] == own


@pytest.mark.parametrize(
    "said, power_state",
    [
        ({"berth_state": "stopped"}, "shutdown"),
        ({"berth_state": "active"}, "running"),
        ({}, None),
        ({"berth_state": "stopped", "berth_locked": True}, None),
    ],
)
def test_a_take_over_tells_the_host_whose_disks_they_are_and_whether_the_guest_is_to_run(create, said, power_state):
    hosts = Hosts()
    create(plan(db1={"take_over": "lost"}), hosts, {"db-1": {**VM, **said}})
    (asked,) = hosts.builds("kvm2")
    assert (asked["state"], asked["disks_of"], asked.get("power_state")) == ("taken_over", "lost", power_state)
    assert asked["evidence"] == "berth_lost_hosts says that the host is off"


def test_check_mode_asks_no_host_about_what_it_does_not_know(create):
    hosts = Hosts()
    done = create(plan(web1={"state": "planned"}, web2={"state": "planned"}), hosts, check_mode=True)
    assert done["web-1"]["changed"] and not hosts.builds("kvm1") and len(hosts.builds("kvm2")) == 1


SENT = {"name": "sent", "upload": "/x", "checksum": "sha256:0", "disk_format": "raw"}
WITH_ROOT = {"image": SENT, "flavor": {"root_gb": 1}, "networks": []}
WITH_VOLUME = {"image": {}, "networks": [], "volumes": [{"name": "tools", "size_gb": 2, "image": SENT}]}


@pytest.mark.parametrize("spec", [WITH_ROOT, WITH_VOLUME])
def test_a_host_is_sent_an_image_of_the_controller_once_before_it_builds(create, spec):
    hosts = Hosts(kvm1={"cached_image": {"changed": True, "present": True}})
    planned = plan(
        **{each: {"spec": {**spec, "uuid": "uuid-of-" + name}} for each, name in (("web1", "web-1"), ("web2", "web-2"))}
    )
    create(planned, hosts)
    assert [name for host, name, _given, _s in hosts.asked if host == "kvm1"][:2] == ["cached_image", "build_instances"]
    assert len([name for _host, name, _given, _s in hosts.asked if name == "cached_image"]) == 1


def test_an_image_that_does_not_arrive_fails_its_instances_alone(create):
    error = {"code": "UploadUnusable", "message": "is no file", "retryable": False}
    hosts = Hosts(kvm1={"cached_image": {"failed": True, "msg": "no", "error": error}})
    done = create(plan(web1={"spec": {**WITH_ROOT, "uuid": "uuid-of-web-1"}}), hosts)
    assert done["web-1"]["error"]["code"] == "UploadUnusable" and "instance" in done["web-2"]
    assert [build["uuid"] for build in hosts.builds("kvm1")] == ["uuid-of-web-2"]


def of_host(name, *, uuid="u", batch=("a", "b"), forks=5):
    task_vars = {"inventory_hostname": name, "ansible_play_batch": list(batch), "ansible_forks": forks}
    return SimpleNamespace(_task=SimpleNamespace(_uuid=uuid, run_once=False)), task_vars


def test_what_ended_halfway_is_done_again_by_no_other_process():
    given = {"uuid": "halfway", "batch": ["a"]}
    with pytest.raises(ZeroDivisionError):
        shared_task.done_together(*of_host("a", **given), lambda _hosts: 1 // 0)
    with pytest.raises(WorkEnded):
        shared_task.done_together(*of_host("a", **given), lambda _hosts: pytest.fail("it was done again"))


def test_only_those_who_have_come_are_worked_for_and_each_once():
    """A host that a condition or a rescue leaves out never comes."""
    worked = []

    def work(hosts):
        worked.append(list(hosts))
        time.sleep(0.05)
        return {"parts": {name: "part of " + name for name in hosts}}

    def run(name):
        return shared_task.done_together(*of_host(name, uuid="waves", batch="abcdef"), work)[0]

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        assert list(pool.map(run, "abde")) == ["part of " + name for name in "abde"]
    assert sorted(sum(worked, [])) == list("abde") and len(worked) < 4


@pytest.mark.follows("leave_run_once_out")
def test_run_once_that_would_leave_others_of_the_play_out_is_refused_and_without_it_they_are_worked_for():
    action, task_vars = of_host("a", uuid="once")
    action._task.run_once = True
    with pytest.raises(InvalidInput) as refused:
        shared_task.done_together(action, task_vars, lambda _hosts: pytest.fail("others were left out"))
    assert refused.value.hint == fleet_hints.leave_run_once_out()
    action._task.run_once = False
    assert (
        shared_task.done_together(action, task_vars, lambda hosts: {"parts": dict.fromkeys(hosts, "its")})[0] == "its"
    )
    alone, its_vars = of_host("a", uuid="alone", batch=["a"])
    alone._task.run_once = True
    assert shared_task.done_together(alone, its_vars, lambda hosts: {"parts": dict.fromkeys(hosts, "its")})[0] == "its"


def test_each_batch_of_a_play_with_serial_is_worked_for():
    """All batches carry out the same task."""

    def run(name, batch):
        def work(hosts):
            return {"parts": {host: "part of " + host for host in hosts}}

        return shared_task.done_together(*of_host(name, uuid="serial", batch=batch), work)[0]

    found = [run(name, batch) for batch in ("ab", "cd", "e") for name in batch]
    assert found == ["part of " + name for name in "abcde"]


def test_who_waited_and_has_no_part_in_the_work_has_not_failed():
    """A KVM host in the play, say, while the process of an instance does the work."""
    given = {"uuid": "no part", "batch": ["a", "b"]}

    def work(hosts):
        return {"parts": {host: "part of " + host for host in hosts if host == "a"}}

    def run(name):
        return shared_task.done_together(*of_host(name, **given), work)[0]

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, "ab")) == ["part of a", {}]


DHCP = {"networks": [{**NIC, "address": None, "gateway": None, "type": "network", "source": "default"}]}


class Leases(Hosts):
    """kvm2 knows the address of db-1 after so many questions; 192.0.2.9 is the one that it knows then."""

    def __init__(self, after):
        super().__init__()
        self.after = after

    def _plain(self, name, given):
        if name != "host_facts":
            return super()._plain(name, given)
        self.after -= 1
        uuid = instance_uuid("p", "db-1")
        known = {"addresses": {uuid: {"address": "192.0.2.9", "source": "lease"}}, "awaited": []}
        return {"changed": False, **(known if self.after < 0 else {"addresses": {}, "awaited": [uuid]})}


def waiting_for(monkeypatch, create, hosts, **known):
    """How often it waited, and the address of the row of db-1. ``known``: what the plan knows of it."""
    slept = []
    monkeypatch.setattr(guest_addresses.time, "sleep", slept.append)
    monkeypatch.setattr(guest_addresses.time, "monotonic", lambda: 1000.0 + sum(slept))
    uuid = instance_uuid("p", "db-1")
    planned = plan(db1={"changed": True, "uuid": uuid})
    planned["instances"]["db-1"]["spec"].update(DHCP, uuid=uuid)
    planned["instances"]["db-1"].update(known)
    done = create(planned, hosts)
    rows = {row["instance"]: row["address"] for row in done["web-1"]["outcomes"]}
    return slept.count(guest_addresses.PAUSE), rows["db-1"]


def test_the_table_has_the_address_that_a_guest_gets_by_dhcp_once_its_host_knows_it(monkeypatch, create):
    hosts = Leases(after=2)
    assert waiting_for(monkeypatch, create, hosts) == (2, "192.0.2.9")
    assert {host for host, name, _given, _s in hosts.asked if name == "host_facts"} == {"kvm2"}


def test_an_address_that_no_guest_asks_for_is_not_awaited_without_limit(monkeypatch, create):
    waits, address = waiting_for(monkeypatch, create, Leases(after=1000))
    assert 2 < waits <= guest_addresses.WAIT // guest_addresses.PAUSE and address == ""


@pytest.mark.parametrize("known", ["192.0.2.9", None])
def test_a_host_that_looked_for_the_address_with_its_facts_is_not_asked_again(monkeypatch, create, known):
    hosts = Leases(after=0)
    assert waiting_for(monkeypatch, create, hosts, known_address=known) == (0, known or "")
    assert [name for _host, name, _given, _s in hosts.asked if name == "host_facts"] == []
