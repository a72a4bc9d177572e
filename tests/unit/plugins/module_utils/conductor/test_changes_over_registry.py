# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An update, a rename or an adoption over an engine: what it takes before its host is asked, and what the instance holds at the
end."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest
from procedure_case import play
from procedure_case import run as to_the_end

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "protocol"))
import history_engine  # noqa: E402
from memory_engine import MemoryEngine  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import (  # noqa: E402
    operate,
    update,
    update_disks,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Transact  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import adopts, changes, engine, keys  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model import nics  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import group_uuid, instance_uuid  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid  # noqa: E402

WEB, DB = instance_uuid("p", "web"), instance_uuid("p", "db")
S, OTHER = "11111111-3c6e-5d59-9d0b-3a1c9d7f1e2a", "21111111-3c6e-5d59-9d0b-3a1c9d7f1e2a"
GROUP = {"name": "close", "uuid": group_uuid("p", "close"), "policy": "affinity"}
FIRST = {"network": "lan", "type": "bridge", "source": "br0", "mac": nics.own_mac(WEB, 0), "address": "192.0.2.10/24"}
NEW = {**FIRST, "network": "dmz", "source": "br1", "mac": nics.own_mac(WEB, 1), "address": "198.51.100.5/24"}
POOLED = {**NEW, "pool": ["198.51.100.5-198.51.100.6"], "prefixlen": 24}
DATA = volume_uuid("p", "data")
GUEST = "31111111-3c6e-5d59-9d0b-3a1c9d7f1e2a"
OF_GUEST = {**NEW, "mac": nics.own_mac(GUEST, 0), "address": None}
NO = {"error": {"code": "No", "message": "no"}}


class Killed(Exception):
    pass


class Case:
    """web on kvm1, whose host does what it is asked, but not the ``refused`` states of a module. ``asked``: (module, state); ``before``:
    module or state -> what happens before it."""

    def __init__(self):
        self.engine, self.asked, self.before, self.refused, self.silent = MemoryEngine(), [], {}, set(), False
        self.tokens, self.runs = itertools.count(), itertools.count()
        self.record = {"uuid": WEB, "name": "web", "project_id": "p", "role": "OWN", "generation": [1, 4], "phase": "active",
                       "group": None, "nics": nics.taken([FIRST])}  # fmt: skip
        self.volumes, self.guests = {}, []
        self.write(keys.META, history_engine.META)
        counts = dict.fromkeys(("serial", "generation", "provider", "read_at"), 0)
        for name, uuid in (("kvm1", S), ("kvm2", OTHER)):
            self.write(keys.host(uuid), {"name": name, **counts, "trusted": True, "reserved": {}, "removed": {}})
        amounts = {"instances": 1, "cores": 1, "ram": 64}
        holds = [keys.name("p", "web"), *map(keys.of_nic, self.record["nics"])]
        self.has(owner=S, epoch=1, amounts=amounts, holds=holds)
        for key in holds:
            self.write(key, WEB)
        self.write(keys.quota("p"), amounts)

    def write(self, key, document):
        self.engine.transact(Transact(writes=(keys.written(key, document),)))

    def read(self, key):
        return keys.document(key, self.engine.keys.get(key))

    def has(self, uuid=WEB, **more):
        entry = self.read(keys.instance(uuid)) or keys.new_instance("web" if uuid == WEB else "db", "p")
        self.write(keys.instance(uuid), {**entry, **more})

    def belongs_to_db(self, key):
        self.has(DB, holds=[key])
        self.write(key, DB)

    @property
    def entry(self):
        return self.read(keys.instance(WEB))

    def held(self):
        """The keys of web, as it knows them and as they say."""
        theirs = {key for key in self.engine.keys if key.startswith((keys.NAMES, keys.ADDRESSES, keys.MACS, keys.VOLUMES))}
        assert {key for key in theirs if self.read(key) == WEB} == set(self.entry["holds"])
        return set(self.entry["holds"])

    def used(self):
        """(volumes, GiB)"""
        return tuple(self.read(keys.quota("p")).get(part, 0) for part in ("volumes", "gigabytes"))

    def known(self):
        return to_the_end(play(engine.whereabouts([WEB]), None, engine=self.engine))

    # runs

    def do(self, kind, task, known=None, quotas=None, dry=False):
        task = {"uuid": WEB, "hosts": ["kvm1"], **task}
        run = changes.ChangesOnEngine("r%d" % next(self.runs), known or self.known(), self.token, {"p": quotas or {}})
        disks = update_disks.Run(self.token, ["kvm1", "kvm2"], dry=dry, changes=run)
        carry_out = {
            "update": lambda tasks: update.update(tasks, {}, update.Run(disks, lambda _name, _spec: {})),
            "update_disks": lambda tasks: update_disks.update_disks(tasks, {}, disks),
            "rename": lambda tasks: operate.rename(tasks, {}, dry, run),
        }[kind]
        (done,) = to_the_end(play(operate.over(run, {"web": task}, carry_out, dry), self._ask, engine=self.engine)).values()
        return [error["code"] for error in done.errors]

    def update(self, *networks, group=None, volumes=(), **more):
        only = [nic for nic in networks if not set(nics.taken([nic])) <= set(self.record["nics"])]
        spec = {"uuid": WEB, "name": "web", "project_id": "p", "networks": list(networks), "group": group}
        new = {"name": "web", "uuid": WEB, "project": "p", "spec": {"uuid": WEB, "name": "web", "networks": only, "had": {}}}
        return self.do("update", {**self.of_volumes(volumes), "spec": spec, "only_new": new if only else None}, **more)

    def of_volumes(self, wanted):
        """``wanted``: (name, GiB)"""
        volumes = [{"name": name, "size_gb": size} for name, size in wanted]
        full = [{**each, "uuid": volume_uuid("p", each["name"]), "instance": WEB} for each in volumes]
        grown = [{**each, "from_gb": self.volumes[each["uuid"]]} for each in full if each["uuid"] in self.volumes]
        return {
            "volumes": volumes,
            "new_volumes": [each for each in full if each["uuid"] not in self.volumes],
            "grown_volumes": [each for each in grown if each["size_gb"] > each["from_gb"]],
        }

    def update_disks(self, *wanted, **more):
        return self.do("update_disks", self.of_volumes(wanted), **more)

    def rename(self, new="db", **more):
        return self.do("rename", {"new_name": new, "asked": ["kvm1", "kvm2"]}, **more)

    def adopt(self, **more):
        """The guest on kvm1 as the instance new."""
        task = {"uuid": GUEST, "hosts": ["kvm1"], "owner": S, "after": [0, 0], "name": "new", "project_id": "p", "flavor": None}
        self.task = {**task, "guest": {"vcpus": 2, "memory_mb": 128, "nics": nics.taken([OF_GUEST])}, **more}
        run = adopts.AdoptsOnEngine("r%d" % next(self.runs), self.token)
        over = operate.over(run, {"new": self.task}, lambda tasks: operate.adopt(tasks, {}, ()), False)
        (done,) = to_the_end(play(over, self._ask, engine=self.engine)).values()
        return [error["code"] for error in done.errors]

    def token(self):
        return "t%d" % next(self.tokens)

    # its host

    def _ask(self, host, module, given):
        assert host == "kvm1", "no other host is asked"
        step = module if module == "rescan" else "claim" if given.get("only_claim") else given["state"]
        self.asked.append(step)
        self.before.pop(step, lambda: None)()
        yield
        if self.silent:
            return {"reason": "UNREACHABLE"}
        if module == "rescan":
            volumes = [{"uuid": uuid, "project_id": "p", "size_gb": size} for uuid, size in self.volumes.items()]
            return {"host_uuid": S, "instances": [self.record, *self.guests], "volumes": volumes}
        if step in self.refused:
            return NO
        if module == "volume":
            self._make(given)
        elif step == "adopted" and not self.guests:
            adopted = {"uuid": GUEST, "name": "new", "generation": [given["after"][0] + 1, 0], "nics": nics.taken([OF_GUEST])}
            self.guests = [{**self.record, **adopted}]
        elif step == "renamed":
            self.record["name"] = given["new_name"]
        elif "spec" in given:
            spec = given["spec"]
            self.record.update(nics=nics.taken(spec["networks"]), group=(spec.get("group") or {}).get("name"))
        return {"changed": True, "instance": {"uuid": WEB}}

    def _make(self, given):
        if given["state"] == "present":
            self.volumes[given["uuid"]] = given["volume"]["size_gb"]


@pytest.fixture
def case():
    return Case()


def of(*networks):
    return set(map(keys.of_nic, nics.taken(networks)))


def dies():
    raise Killed


NAME = keys.name("p", "web")


def test_a_new_address_is_its_own_before_its_host_is_asked_and_one_that_it_leaves_goes(case):
    seen = []
    case.before["claim"] = lambda: seen.append(case.held())
    assert case.update(NEW) == []
    assert seen == [{NAME, *of(FIRST), *of(NEW)}]
    assert case.held() == {NAME, *of(NEW)} and case.entry["pending"] == []


def test_an_address_of_another_instance_is_refused_before_its_host_is_asked(case):
    case.belongs_to_db(*of({**NEW, "mac": None}))
    assert case.update(FIRST, NEW) == ["AddressTaken"]
    assert case.asked == [] and case.held() == {NAME, *of(FIRST)} and case.entry["pending"] == []


def test_an_address_of_a_pool_that_another_run_took_meanwhile_is_chosen_again(case):
    case.belongs_to_db(*of({**NEW, "mac": None}))
    assert case.update(FIRST, POOLED) == []
    assert case.held() == {NAME, *of(FIRST), *of({**NEW, "address": "198.51.100.6/24"})}


def test_an_update_that_its_host_refuses_holds_nothing_more(case):
    case.refused = {"claim", "updated"}
    assert case.update(FIRST, NEW, group=GROUP) == ["No"]
    assert case.held() == {NAME, *of(FIRST)} and case.entry["pending"] == []
    assert not case.read(keys.group(GROUP["uuid"])) and case.entry["group"] is None


def test_the_seat_goes_with_the_instance_from_one_group_to_another(case):
    old = {"name": "old", "uuid": group_uuid("p", "old"), "policy": "affinity"}
    assert case.update(FIRST, group=old) == []
    assert (case.entry["group"], case.read(keys.group(old["uuid"]))) == (old["uuid"], {WEB: [S]})
    assert case.update(FIRST, group=GROUP) == []
    assert case.read(keys.group(GROUP["uuid"])) == {WEB: [S]} and case.read(keys.group(old["uuid"])) == {}
    assert case.update(FIRST) == [] and case.entry["group"] is None


def test_no_instance_joins_a_group_whose_members_are_elsewhere(case):
    case.write(keys.group(GROUP["uuid"]), {DB: [OTHER]})
    assert case.update(FIRST, group=GROUP) == ["GroupPolicyViolation"] and case.asked == []
    assert case.read(keys.group(GROUP["uuid"])) == {DB: [OTHER]}


# ---- volumes -----------------------------------------------------------------------------------------------------------


def test_new_volumes_and_what_grows_count_in_the_quota_before_they_are_made(case):
    seen = []
    case.before["claimed"] = lambda: seen.append((case.used(), keys.volume(DATA) in case.held()))
    assert case.update_disks(("data", 2)) == []
    case.before["claimed"] = lambda: seen.append((case.used(), keys.volume(DATA) in case.held()))
    assert case.update_disks(("data", 5)) == []
    assert seen == [((1, 2), True), ((1, 5), True)] and case.used() == (1, 5)
    assert case.entry["pending"] == [] and case.asked[:4] == ["claimed", "present", "disks_updated", "rescan"]


def test_what_exceeds_the_quota_is_refused_before_its_host_is_asked(case):
    assert case.update_disks(("data", 2), quotas={"gigabytes": 1}) == ["QuotaExceeded"]
    assert case.asked == [] and case.used() == (0, 0)


@pytest.mark.parametrize("step", ["claimed", "present"])
def test_what_its_host_does_not_make_counts_no_more(case, step):
    case.refused = {step}
    assert case.update_disks(("data", 2)) == ["No"]
    assert case.used() == (0, 0) and case.held() == {NAME, *of(FIRST)}


def test_a_detached_volume_is_free_and_still_counts(case):
    case.update_disks(("data", 2))
    assert case.update_disks() == []
    assert case.held() == {NAME, *of(FIRST)} and case.used() == (1, 2)


def test_a_volume_of_another_instance_is_refused_before_its_host_is_asked(case):
    case.belongs_to_db(keys.volume(DATA))
    assert case.update_disks(("data", 2)) == ["VolumeInUse"] and case.asked == []


# ---- rename ------------------------------------------------------------------------------------------------------------


def test_both_names_are_its_own_until_it_has_the_new_one(case):
    seen = []
    case.before["renamed"] = lambda: seen.append(case.held())
    assert case.rename() == []
    assert seen == [{NAME, keys.name("p", "db"), *of(FIRST)}]
    assert case.held() == {keys.name("p", "db"), *of(FIRST)} and case.entry["name"] == "db"
    assert case.asked == ["renamed", "rescan"], "no host hears what the others have"


def test_a_name_of_another_instance_is_refused_before_its_host_is_asked(case):
    case.belongs_to_db(keys.name("p", "db"))
    assert case.rename() == ["InstanceExists"] and case.asked == []


def test_a_rename_that_its_host_refuses_leaves_the_new_name_free(case):
    case.refused = {"renamed"}
    assert case.rename() == ["No"]
    assert case.held() == {NAME, *of(FIRST)} and case.entry["name"] == "web"


# ---- adopt -------------------------------------------------------------------------------------------------------------


def adopted(case):
    """(owner, epoch) of the guest by the registry, and the cores that the project uses."""
    entry = case.read(keys.instance(GUEST)) or {"owner": None, "epoch": 0}
    return entry["owner"], entry["epoch"], case.read(keys.quota("p"))["cores"]


def test_a_guest_has_its_name_and_its_addresses_before_its_host_is_asked(case):
    seen = []
    name, mac = keys.name("p", "new"), *of(OF_GUEST)
    case.before["adopted"] = lambda: seen.append((case.read(name), case.read(mac), adopted(case)))
    assert case.adopt() == []
    assert seen == [(GUEST, GUEST, (None, 0, 3))] and adopted(case) == (S, 1, 3)
    assert case.asked == ["adopted", "rescan"], "no host hears what the others have"
    assert case.adopt() == [] and adopted(case) == (S, 1, 3)


@pytest.mark.parametrize("code, key", [("InstanceExists", keys.name("p", "new")), ("AddressTaken", *of(OF_GUEST))])
def test_no_guest_gets_what_another_instance_has(case, code, key):
    case.belongs_to_db(key)
    assert case.adopt() == [code] and case.asked == [] and adopted(case) == (None, 0, 1)


def test_a_guest_that_is_an_instance_on_another_host_is_not_adopted(case):
    case.has(GUEST, owner=OTHER, epoch=1)
    assert case.adopt() == ["InstanceExists"] and case.asked == []


def test_a_guest_that_left_begins_in_a_later_epoch_and_one_that_is_refused_gives_all_back(case):
    case.has(GUEST, epoch=4)
    case.refused = {"adopted"}
    assert case.adopt() == ["No"] and adopted(case) == (None, 5, 1) and not case.read(keys.name("p", "new"))
    case.refused = set()
    assert case.adopt() == [] and adopted(case) == (S, 6, 3)


@pytest.mark.parametrize("step", ["adopted", "rescan"])
def test_an_adoption_that_was_killed_is_finished_by_the_next(case, step):
    case.before[step] = dies
    with pytest.raises(Killed):
        case.adopt()
    assert case.adopt() == [] and adopted(case) == (S, 1, 3)
    assert case.read(keys.instance(GUEST))["pending"] == []


# ---- other runs, and runs that die -------------------------------------------------------------------------------------


def test_a_change_gives_way_to_one_that_began_since_it_has_read(case):
    known = case.known()
    assert case.update(FIRST, NEW) == []
    case.asked.clear()
    assert case.update(FIRST, known=known) == ["ClaimConflict"] and case.asked == []
    assert case.held() == {NAME, *of(FIRST), *of(NEW)}


def ended_by_another(case):
    """Another run, or an audit, has taken it for dead."""
    case.has(pending=[])


def test_one_that_is_taken_for_dead_before_its_guest_has_the_address_gives_it_back(case):
    case.before["claim"] = lambda: ended_by_another(case)
    assert case.update(FIRST, NEW) == ["ClaimConflict"]
    assert case.asked == ["claim", "claim", "rescan"] and set(case.record["nics"]) == set(nics.taken([FIRST]))


def test_one_that_is_taken_for_dead_makes_no_volume(case):
    case.before["claimed"] = lambda: ended_by_another(case)
    assert case.update_disks(("data", 2)) == ["ClaimConflict"]
    assert case.asked[:2] == ["claimed", "absent"] and case.volumes == {}


def test_one_that_is_taken_for_dead_keeps_its_name(case):
    case.before["renamed"] = lambda: ended_by_another(case)
    assert case.rename() == ["ClaimConflict"] and case.record["name"] == "web"


@pytest.mark.parametrize("step", ["claimed", "present", "disks_updated", "rescan"])
def test_what_a_killed_run_had_taken_counts_once(case, step):
    case.before[step] = dies
    with pytest.raises(Killed):
        case.update_disks(("data", 2))
    assert case.update_disks(("data", 2)) == []
    assert case.used() == (1, 2) and case.entry["pending"] == []
    case.before[step] = dies
    with pytest.raises(Killed):
        case.update_disks(("data", 5))
    assert case.update_disks(("data", 5)) == []
    assert case.used() == (1, 5) and case.entry["pending"] == []


@pytest.mark.parametrize("step", ["renamed", "rescan"])
def test_a_rename_that_was_killed_is_finished_by_the_next(case, step):
    case.before[step] = dies
    with pytest.raises(Killed):
        case.rename()
    assert case.rename() == []
    assert case.held() == {keys.name("p", "db"), *of(FIRST)} and case.entry["pending"] == []


def test_what_a_killed_update_had_taken_goes_with_the_next_that_does_not_want_it(case):
    case.before["claim"] = dies
    with pytest.raises(Killed):
        case.update(FIRST, NEW)
    assert case.held() == {NAME, *of(FIRST), *of(NEW)}
    assert case.update(FIRST) == [] and case.held() == {NAME, *of(FIRST)}


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("write", range(3))
def test_whether_a_write_was_done_whose_answer_is_lost_is_found_out(case, write, done):
    case.engine.lose(*[None] * write, done)
    assert case.update_disks(("data", 2)) == [] and case.engine.lost == []
    assert case.used() == (1, 2) and case.entry["pending"] == []


def test_while_the_registry_is_away_nothing_is_begun(case):
    known, case.engine.away = case.known(), True
    assert case.update(FIRST, NEW, known=known) == ["RegistryUnknown"] and case.asked == []


def test_if_the_registry_goes_away_in_the_middle_the_guest_gets_nothing_and_a_later_run_tells_it(case):
    case.before["claim"] = lambda: setattr(case.engine, "away", True)
    assert case.update(FIRST, NEW) == ["RegistryUnknown"]
    case.engine.away = False
    assert set(case.record["nics"]) == set(nics.taken([FIRST]))
    assert case.update(FIRST) == [] and case.held() == {NAME, *of(FIRST)}


def test_check_mode_refuses_as_the_run_would_and_asks_for_no_record(case):
    before = dict(case.engine.keys)
    transact = case.engine.transact
    case.engine.transact = lambda step: transact(step._replace(writes=()))  # as Access does
    assert case.update(FIRST, NEW, dry=True) == [] and case.asked == ["updated"]
    assert case.engine.keys == before
