# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rule that names a group lets in the members that there are, at the addresses that berth gave them, and nobody else: from the
inventory, through what hosts tell, to the packet filter of a guest."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from instance_case import Case, Killed

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import network, packet_filter, power
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import update_filters as on_host
from ansible_collections.berth.kvm.plugins.module_utils.conductor import addressing
from ansible_collections.berth.kvm.plugins.module_utils.conductor import security_group_members as in_conductor
from ansible_collections.berth.kvm.plugins.module_utils.conductor.addressing import addresses
from ansible_collections.berth.kvm.plugins.module_utils.model import address_clash, networks, packet_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.catalog import Catalog
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.modules import rescan
from ansible_collections.berth.kvm.plugins.plugin_utils import delegates, fleet_filters

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "action"))
from controller import Controller  # noqa: E402

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="the controller's part needs an Ansible of now")
GROUPS = {
    "web": {"rules": [{"protocol": "tcp", "ports": 80}]},
    "db": {"rules": [{"protocol": "tcp", "ports": 5432, "remote_group": "web"}]},
    "peers": {"rules": [{"protocol": "any", "remote_group": "peers"}]},
}
LAN = {"lan": {"type": "bridge", "source": "br0", "cidr": "192.0.2.0/24"}, "v6": {"type": "bridge", "source": "br6"}}
CATALOG = {"berth_networks_defined": LAN, "berth_security_groups_defined": GROUPS}


class World:
    """One host with instances, and an inventory that says who is in which group."""

    def __init__(self, host, wanted):
        self.host, self.wanted, self.inventory, self.warned = host, wanted, {}, []
        self.asked = []

    def describe(self, name, groups, address=None, **more):
        nics = [{"network": "lan", **({"address": address} if address else {}), **more}]
        self.inventory[name] = {"berth_flavor": "m", "berth_networks": nics, "berth_security_groups": groups}

    def make(self, name, groups, address=None, **more):
        self.describe(name, groups, address, **more)
        case = Case(self.host, self.wanted(name))
        catalog = Catalog.from_variables(CATALOG)
        given = {
            "mac": None,
            "security_groups": None,
            "port_security": None,
            "allowed_addresses": None,
            "address": address,
        }
        nic = {**given, "network": "lan", **more}
        case.spec["networks"] = [networks.make_nic(case.uuid, 0, nic, catalog, "virtio", groups)]
        case.make()
        return case

    def told(self):
        """What the host tells when it is read."""
        records = self.host.store.records()
        lets_in = rescan.admitted_members.reported((record.uuid, record.spec) for record in records)
        return [{**rescan.summary(record), **lets_in[record.uuid]} for record in records]

    def answer(self, module, given):
        self.asked.append(module)
        if module == "berth.kvm.rescan":
            return {"instances": self.told()}
        changed, waiting = on_host.follow(self.host, set(given["instances"]), given["groups"])
        return {"changed": changed, "waiting": waiting}

    def run(self, monkeypatch, groups=None, lost=()):
        """What the end of create and of delete do."""
        controller = Controller(
            {"kvm_hosts": ["kvm1", "kvm2"], "vms": list(self.inventory)},
            {
                **self.inventory,
                "vms": {**CATALOG, "berth_security_groups_defined": groups or GROUPS, "berth_lost_hosts": list(lost)},
            },
        )

        def run_on(hosts, module, given, *_rest):
            return {host: self.answer(module, given[host]) for host in hosts}

        monkeypatch.setattr(delegates, "run_on", run_on)
        self.warned.clear()
        monkeypatch.setattr(fleet_filters, "warn", self.warned.append)
        task = type("Task", (), {"run_once": True, "check_mode": False})()
        action = type("Action", (), {"_task": task, "_loader": controller.loader})()
        fleet_filters.follow(action, controller.task_vars(), ["kvm1"])

    def held(self):
        return addresses({"kvm1": self.told()})


@pytest.fixture
def world(prepared, wanted, monkeypatch):
    monkeypatch.setattr(network, "check", lambda *_: None)
    found = World(prepared, wanted)
    found.run = lambda *args, run=found.run, **more: run(monkeypatch, *args, **more)
    return found


def run(world, silent=False, **more):
    """kvm2 is silent, or known to be lost."""
    world.run(lost=[] if silent else ["kvm2"], **more)


def let_in(case, port="5432"):
    """The addresses that the filter lets in to a port."""
    xml = case.host.connection.filters[packet_filter.name(case.uuid, 0)].xml
    return {
        "%s/%s" % (each[0].get("srcipaddr", "any"), each[0].get("srcipmask", ""))
        for each in ElementTree.fromstring(xml).findall("rule")
        if each.get("action") == "accept" and each.get("direction") == "in" and each[0].get("dstportstart") == port
    }


def test_members_are_let_in_when_they_are_there_and_go_out_when_they_are_gone(world):
    db = world.make("db", ["db"], "192.0.2.20")
    assert let_in(db) == set(), "a group without members lets nobody in, not anybody"
    web = world.make("web1", ["web"], "192.0.2.100")
    world.make("other", ["peers"], "192.0.2.101")
    run(world)
    assert let_in(db) == {"192.0.2.100/32"} and world.warned == []
    assert world.asked == ["berth.kvm.rescan", "berth.kvm.group_members"] * 2, "who has written looks again"
    world.asked.clear()
    run(world)
    assert world.asked == ["berth.kvm.rescan", "berth.kvm.group_members"], "again is no change"
    web.instance().absent()
    run(world)
    assert let_in(db) == set() and db.domain.starts == 1


def test_an_instance_that_leaves_the_group_in_the_inventory_goes_out(world):
    db, _web = world.make("db", ["db"], "192.0.2.20"), world.make("web1", ["web"], "192.0.2.100")
    run(world)
    world.describe("web1", [], "192.0.2.100")
    run(world)
    assert let_in(db) == set()


def test_an_instance_of_another_project_is_no_member(world):
    db, _web = world.make("db", ["db"], "192.0.2.20"), world.make("web1", ["web"], "192.0.2.100")
    world.inventory["web1"]["berth_project"] = "theirs"
    run(world)
    assert let_in(db) == set()


def test_a_group_that_names_itself_lets_its_members_in_to_each_other(world):
    cases = [world.make("p%d" % at, ["peers"], "192.0.2.%d" % at) for at in (4, 5, 9)]
    run(world)
    assert all(let_in(case, None) >= {"192.0.2.4/31", "192.0.2.9/32"} for case in cases)


def test_rules_that_change_keep_the_members(world):
    db, _web = world.make("db", ["db"], "192.0.2.20"), world.make("web1", ["web"], "192.0.2.100")
    run(world)
    assert db.instance().filtered(db.spec) is False, "create with the same rules changes nothing"
    new = {**db.spec, "networks": [{**db.spec["networks"][0]}]}
    rule = {"direction": "in", "protocol": "tcp", "ports": "3306-3306", "remote": None, "remote_group": "web"}
    new["networks"][0]["security"] = {"groups": ["db"], "rules": [rule], "allowed": []}
    assert db.instance().filtered(new) is True
    assert (let_in(db, "3306"), let_in(db)) == ({"192.0.2.100/32"}, set())


@pytest.mark.follows("filters_follow_first")
def test_an_address_that_a_filter_lets_in_is_nobody_elses_until_the_filter_has_followed(world):
    db, web = world.make("db", ["db"], "192.0.2.20"), world.make("web1", ["web"], "192.0.2.100")
    run(world)
    web.instance().absent()  # by a run that died before the filters followed
    nic = {"type": "bridge", "source": "br0", "mac": "02:00:00:00:00:77", "address": "192.0.2.100/24"}
    evil = {"uuid": instance_uuid("default", "evil"), "name": "evil", "networks": [nic]}
    error = address_clash.clash(evil, world.held())
    assert "packet filter of db on kvm1" in str(error) and error.hint == packet_hints.filters_follow_first("evil")
    pooled = {"spec": {"networks": [{**nic, "address": None, "pool": ["192.0.2.100-192.0.2.100"], "network": "lan"}]}}
    pooled.update(uuid=evil["uuid"], name="evil")
    assert addressing.choose_again(pooled, world.held(), {}) is False, "nor does the pool give it"
    assert address_clash.clash({**evil, "uuid": web.uuid}, world.held()) is None, "who had it gets it again"
    run(world)
    assert let_in(db) == set() and address_clash.clash(evil, world.held()) is None


@pytest.mark.follows("filters_follow_first")
@pytest.mark.parametrize("way", ["A run with another inventory", "a deleted instance"])
def test_the_filter_of_an_instance_that_left_the_inventory_holds_an_address_as_the_hint_says(world, way):
    db, web = world.make("db", ["db"], "192.0.2.20"), world.make("web1", ["web"], "192.0.2.100")
    run(world)
    web.instance().absent()
    described = world.inventory.pop("db")
    nic = {"type": "bridge", "source": "br0", "mac": "02:00:00:00:00:77", "address": "192.0.2.100/24"}
    evil = {"uuid": instance_uuid("default", "evil"), "name": "evil", "networks": [nic]}
    run(world)
    assert way in address_clash.clash(evil, world.held()).hint and world.warned == []
    if way.startswith("A run"):
        world.inventory["db"] = described
    else:
        db.instance().absent()
    run(world)
    assert address_clash.clash(evil, world.held()) is None


@pytest.mark.parametrize("write", [1, 2])
def test_a_run_that_is_killed_while_a_filter_follows_leaves_the_address_held(world, monkeypatch, write):
    db, web = world.make("db", ["db"], "192.0.2.20"), world.make("web1", ["web"], "192.0.2.100")
    run(world)
    web.instance().absent()

    def killed(*_):
        raise Killed

    with monkeypatch.context() as broken:
        if write == 1:
            broken.setattr(packet_filter, "define", killed)
        else:
            broken.setattr(world.host.store, "compare_and_swap", killed)
        with pytest.raises(Killed):
            run(world)
    word = "address 192.0.2.100 on bridge br0"
    assert web.uuid in world.held().get(word, {}), "told for as long as the filter may let it in"
    run(world)
    assert let_in(db) == set() and word not in world.held()


def test_members_on_a_silent_host_stay_and_none_comes(world):
    db, web = world.make("db", ["db"], "192.0.2.20"), world.make("web1", ["web"], "192.0.2.100")
    run(world)
    world.describe("web2", ["web"], "192.0.2.102")
    told = world.told
    world.told = lambda: [each for each in told() if each["uuid"] != web.uuid]  # it is on kvm2 now
    run(world, silent=True)
    assert let_in(db) == {"192.0.2.100/32"} and "kvm2" in world.warned[0]
    world.describe("web1", [], "192.0.2.100")
    run(world, silent=True)
    assert let_in(db) == set(), "who left the group goes out, wherever it is"


@pytest.mark.parametrize(
    "word", ["address 198.51.100.1 on bridge br0", "address 192.0.2.100 on bridge br9", "address x on bridge br0"]
)
def test_an_address_that_is_not_on_the_members_network_is_not_let_in_whatever_a_host_says(world, word):
    db, web = world.make("db", ["db"], "192.0.2.20"), world.make("web1", ["web"], "192.0.2.100")
    told = world.told
    world.told = lambda: [{**each, "nics": [word]} if each["uuid"] == web.uuid else each for each in told()]
    run(world)
    assert let_in(db) == set() and "web1 is in security group web" in world.warned[0]


def test_an_address_that_two_instances_have_and_a_member_on_two_hosts_are_not_let_in(world):
    db, web = world.make("db", ["db"], "192.0.2.20"), world.make("web1", ["web"], "192.0.2.100")
    told = world.told
    for more in ({"uuid": instance_uuid("default", "evil")}, {}):
        world.told = lambda more=more: [*told(), *({**each, **more} for each in told() if each["uuid"] == web.uuid)]
        run(world)
        assert let_in(db) == set()


@pytest.mark.parametrize("role", ["IN", "OUT"])
def test_a_host_that_says_a_member_comes_to_it_adds_no_address(world, role):
    db, web = world.make("db", ["db"], "192.0.2.20"), world.make("web1", ["web"], "192.0.2.100")
    told, more = world.told, {"role": role, "nics": ["address 192.0.2.66 on bridge br0"]}
    lie = {**next(each for each in told() if each["uuid"] == web.uuid), **more}
    world.told = lambda: [*told(), lie]
    run(world)
    assert let_in(db) == {"192.0.2.100/32"}, "who owns it says where it is"
    world.told = lambda: [*(each for each in told() if each["uuid"] != web.uuid), lie]
    run(world, silent=True)
    assert let_in(db) == {"192.0.2.100/32"}, "nor while its owner may be silent"


def test_of_a_locked_instance_whose_filter_is_as_it_should_be_nothing_is_said(world):
    db, web = world.make("db", ["db"], "192.0.2.20"), world.make("web1", ["web"], "192.0.2.100")
    run(world)
    power.lock(db.instance(), "ann", "audit")
    run(world)
    assert world.warned == []
    web.instance().absent()
    run(world)
    assert "db is locked by ann" in world.warned[0] and let_in(db) == {"192.0.2.100/32"}


@pytest.mark.follows("address_for_group")
def test_a_member_that_asks_dhcp_is_named_and_let_in_when_it_was_made_anew_with_an_address(world):
    db, web = world.make("db", ["db"], "192.0.2.20"), world.make("web1", ["web"])
    run(world)
    assert let_in(db) == set() and len(world.warned) == 1
    assert world.warned[0].endswith(packet_hints.address_for_group("web1"))
    web.instance().absent()
    world.make("web1", ["web"], "192.0.2.100")
    run(world)
    assert let_in(db) == {"192.0.2.100/32"} and world.warned == []


@pytest.mark.follows("bring_filters")
def test_a_locked_instance_and_one_in_a_move_are_named_and_follow_when_that_is_over(world):
    db, _web = world.make("db", ["db"], "192.0.2.20"), world.make("web1", ["web"], "192.0.2.100")
    power.lock(db.instance(), "ann", "audit")
    run(world)
    assert let_in(db) == set() and "db is locked by ann" in world.warned[0]
    assert world.warned[0].endswith(packet_hints.bring_filters())
    power.unlock(db.instance())
    db.instance().swap(db.record.replace(op="migrate"))
    run(world)
    assert let_in(db) == set() and "OWN active, in a move" in world.warned[0]
    db.instance().swap(db.record.replace(op=None))
    run(world)
    assert let_in(db) == {"192.0.2.100/32"} and world.warned == []


def test_who_has_a_fault_in_its_variables_stays_as_it_is(world):
    db, _web = world.make("db", ["db"], "192.0.2.20"), world.make("web1", ["web"], "192.0.2.100")
    run(world)
    world.inventory["web1"]["berth_security_groups"] = ["wbe"]
    run(world)
    assert let_in(db) == {"192.0.2.100/32"} and "packet filters stay as they are for web1" in world.warned[0]


@pytest.mark.follows("divide_group")
def test_no_more_addresses_than_a_filter_takes_the_same_in_each_run(world, monkeypatch):
    monkeypatch.setattr(in_conductor, "MOST_ADDRESSES", 2)
    db = world.make("db", ["db"], "192.0.2.20")
    for at in range(3):
        world.make("web%d" % at, ["web"], "192.0.2.%d" % (100 + 2 * at))
    run(world)
    found = let_in(db)
    assert len(found) == 2 and world.warned == [
        "rules with remote_group web let in 2 of its 3 addresses. " + packet_hints.divide_group()
    ]
    run(world)
    assert let_in(db) == found
    world.describe("web2", [], "192.0.2.104")
    run(world)
    assert len(let_in(db)) == 2 and world.warned == []


def test_members_on_a_silent_host_take_the_place_of_others_in_a_filter_that_is_full(world, monkeypatch):
    monkeypatch.setattr(in_conductor, "MOST_ADDRESSES", 2)
    monkeypatch.setattr(on_host.admitted_members, "MOST_ADDRESSES", 2)
    db = world.make("db", ["db"], "192.0.2.20")
    webs = [world.make("web%d" % at, ["web"], "192.0.2.%d" % (100 + 2 * at)) for at in range(3)]
    run(world)
    before = let_in(db)
    gone = next(web for web in webs if "%s/32" % web.spec["networks"][0]["address"].partition("/")[0] in before)
    shutil.rmtree("%s/instances/%s" % (world.host.store.state_dir, gone.uuid))  # it is on kvm2, which says nothing
    run(world, silent=True)
    assert len(let_in(db)) == 2 and let_in(db) >= {"%s/32" % gone.spec["networks"][0]["address"].partition("/")[0]}
    run(world)
    assert len(let_in(db)) == 2, "kvm2 is lost: the other two"


def test_where_no_rule_names_a_group_no_host_is_asked(world):
    world.make("web1", ["web"], "192.0.2.100")
    run(world, groups={"web": GROUPS["web"]})
    assert world.asked == []
