# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The room of a move: claimed by the checks of every claim, for what placement decided and nothing that the source says
(R25, S23, S41; I2, I6)."""

from __future__ import annotations

import copy
import itertools

import pytest
from claim_of_a_move_case import NIC, Effects, Move, Side, owns, pair, refused, spec

from ansible_collections.berth.kvm.plugins.module_utils.compute.host import facts
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps.common import view_of
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import claim as claims
from ansible_collections.berth.kvm.plugins.module_utils.conductor import moving
from ansible_collections.berth.kvm.plugins.module_utils.model import reply
from ansible_collections.berth.kvm.plugins.module_utils.model.catalog import Catalog
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError, InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import (
    MigrationConflict,
    MigrationNotReady,
    SourceDiffers,
)
from ansible_collections.berth.kvm.plugins.module_utils.placement.request import build_request


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    """{name: a host of 4 CPUs, 2 GiB, 20 GiB}."""
    sides = {name: Side(tmp_path, name) for name in ("s1", "s2", "d")}

    def collect(_connection, _settings, records, state_dir, **_options):
        here = next(side for side in sides.values() if side.store.state_dir == state_dir)
        instances = [facts._own(record, {}) for record in records] + here.foreign
        used = {
            part: sum(instance.get(part, 0) for instance in instances) for part in ("vcpus", "memory_mb", "disk_gb")
        }
        return {
            "host": here.identity["name"], "vcpus": 4, "vcpus_used": used["vcpus"], "cpu_allocation_ratio": 1.0,
            "memory_mb": 2048, "memory_mb_used": used["memory_mb"], "reserved_host_memory_mb": 0, "local_gb": 20,
            "local_gb_used": used["disk_gb"], "instances": instances,
        }  # fmt: skip

    monkeypatch.setattr(facts, "collect", collect)
    return sides


# --- the same checks as those of every claim


def anti_affine(fleet):
    owns(fleet["d"], spec("b", pair()))
    return "GroupPolicyViolated", dict(wanted=spec("a", pair()))


def two_per_host(fleet):
    for name in ("b", "c"):
        owns(fleet["d"], spec(name, pair(max_server_per_host=2)))
    return "GroupPolicyViolated", dict(wanted=spec("a", pair(max_server_per_host=2)))


def limits_of_the_decision(fleet):
    owns(fleet["d"], spec("b"))
    return "ClaimFailed", dict(wanted=spec("a"), limits={"vcpu": 1})


def capacity(fleet):
    owns(fleet["d"], spec("b", vcpus=4))
    return "ClaimFailed", dict(wanted=spec("a"))


def a_foreign_name(fleet):
    fleet["d"].foreign.append({"uuid": "0" * 32, "name": "a", "foreign": True, "group": None, "project_id": None})
    return "InstanceExists", dict(wanted=spec("a"))


def a_taken_address(fleet):
    owns(fleet["d"], spec("b", networks=[NIC]))
    return "AddressTaken", dict(wanted=spec("a", networks=[dict(NIC, mac="02:00:00:00:00:99")]))


def a_foreign_mac(fleet):
    foreign = {"uuid": "0" * 32, "name": "x", "foreign": True, "group": None, "project_id": None}
    fleet["d"].foreign.append(dict(foreign, nics=["MAC address " + NIC["mac"]]))
    return "AddressTaken", dict(wanted=spec("a", networks=[NIC]))


def on_the_same_host(fleet):
    return "ClaimFailed", dict(wanted=spec("a", vcpus=2), destination="s1", limits={"vcpu": 2})


CHECKS = [
    anti_affine,
    two_per_host,
    limits_of_the_decision,
    capacity,
    a_foreign_name,
    a_taken_address,
    a_foreign_mac,
    on_the_same_host,
]


@pytest.mark.parametrize("case", CHECKS, ids=lambda case: case.__name__)
def test_a_move_claims_by_the_checks_of_a_creation(case, fleet):
    code, move = case(fleet)
    owns(fleet["s1"], dict(move["wanted"], flavor=spec("a")["flavor"]))
    begun = Move(fleet, "s1", op="op1", **move)
    if move.get("destination") == "s1":
        error = refused(BerthError, begun.begin)
    else:
        error = refused(BerthError, begun.begin().claim)
        assert fleet["d"].store.read(begun.uuid) is None
        created = claims.claim_all(
            fleet["d"].compute, [{"spec": begun.decided["spec"], "limits": begun.decided["limits"]}]
        )
        assert created[0]["error"]["code"] == code, "a creation says the same"
    assert (error.code, error.retryable) == (code, code not in ("InstanceExists", "AddressTaken"))


@pytest.mark.parametrize("kind", ["migration", "resize", "live-migration"])
def test_a_move_planned_before_the_instance_got_a_disk_does_not_begin(fleet, kind, monkeypatch):
    """With the request of the plan the instance would lose it, and the end of the move would remove it."""
    monkeypatch.setattr(Effects, "power_state", lambda self, uuid: "running")
    owns(fleet["s1"], spec("a", disks=[{"name": "logs", "size_gb": 2, "bus": "virtio"}]))
    error = refused(MigrationConflict, Move(fleet, "s1", spec("a", vcpus=2), "op1", kind).begin)
    assert "the disks of a," in str(error) and fleet["s1"].store.read(spec("a")["uuid"]).op is None


def test_a_source_that_says_other_volumes_than_were_decided_moves_nothing(fleet):
    """Whose record an attacker, or a person by hand, has changed since the run looked."""
    owns(fleet["s1"], spec("a"))
    begun = Move(fleet, "s1", spec("a", vcpus=2), "op1").begin()
    has = {"volumes": [{"name": "db", "size_gb": 2, "delete_on_termination": False, "slot": 0}]}
    begun.peer["migration"]["new_spec"] = {**begun.peer["migration"]["new_spec"], **has}
    assert refused(SourceDiffers, begun.claim).details["parts"] == ["volumes"]
    assert fleet["d"].store.read(begun.uuid) is None


def test_what_fits_is_claimed_as_it_was_decided(fleet):
    owns(fleet["s1"], spec("a"))
    wanted = spec("a", vcpus=2, force_hosts=[])
    record = Move(fleet, "s1", wanted, "op1", limits={"vcpu": 2}).begin().claim(confirm_window=60)
    assert (record.role, record.spec, record.resources["vcpus"]) == ("IN", wanted, 2)
    assert (record.name, record.project_id, record.migration["confirm_window"]) == ("a", "default", 60)


@pytest.mark.parametrize("kind", ["migration", "resize", "live-migration"])
@pytest.mark.parametrize("order", sorted(set(itertools.permutations("aabb"))), ids="".join)
def test_two_moves_at_once_never_put_two_of_an_anti_affine_pair_on_one_host(order, kind, fleet, monkeypatch):
    """Two runs that chose the same host, in every order of their begins and claims."""
    monkeypatch.setattr(Effects, "executing", lambda self, uuid: True)
    monkeypatch.setattr(Effects, "describe_live", lambda self, record: {})
    group, vcpus = pair(), 2 if kind == "resize" else 1
    steps = {}
    for name, source in (("a", "s1"), ("b", "s2")):
        owns(fleet[source], spec(name, group))
        move = Move(fleet, source, spec(name, group, vcpus), "op-" + name, kind)
        steps[name] = iter((move.begin, move.claim))
    errors = []
    for name in order:
        try:
            next(steps[name])()
        except BerthError as error:
            errors.append(error.code)
    assert (errors, len(fleet["d"].store.records())) == (["GroupPolicyViolated"], 1)


# --- what the source says


def requested(name, **flavor):
    """A request as the controller makes it of variables and catalog."""
    given = {"inventory_hostname": name, "berth_flavor": "f", "berth_image": "guest", "berth_networks": ["lan"]}
    image = {"url": "/images/guest.qcow2", "checksum": "sha256:" + "0" * 64, "disk_format": "qcow2"}
    catalog = Catalog.from_variables(
        {
            "berth_flavors": {"f": {"vcpus": 1, "memory_mb": 256, "root_gb": 1, **flavor}},
            "berth_images": {"guest": dict(image, properties={"os_distro": "x"})},
            "berth_networks_defined": {"lan": {"type": "bridge", "source": "br0", "cidr": "192.0.2.0/24"}},
        }
    )
    return build_request({**given, "berth_metadata": {"a": "b\nc"}}, catalog)[0]


@pytest.mark.parametrize("kind", ["resize", "migration"])
def test_an_honest_source_says_what_was_decided_also_after_its_reply_was_checked(kind, fleet):
    """The controller checks and cleans each reply before the other host hears it."""
    owns(fleet["s1"], requested("a"))
    held = view_of(fleet["s1"], fleet["s1"].store.read(requested("a")["uuid"]))
    said = reply.check("migration", {"move": held, "token": {}, "took": {}}, "s1", {"uuid": held["uuid"]})["move"]
    new = {"flavor": requested("a", vcpus=2, extra_specs={"aggregate_instance_extra_specs:ssd": True})["flavor"]}
    wanted = moving.request(said, new, kind, ["s1"])
    begun = Move(fleet, "s1", wanted, "op1", kind).begin()
    begun.peer = reply.check(
        "migration",
        {"move": dict(begun.peer), "token": {"op": "op1"}, "took": {}},
        "s1",
        {"uuid": begun.uuid, "token": begun.token},
    )["move"]
    assert begun.claim().spec == wanted


def lie(peer, part, value):
    """The source's word with another ``part`` in what it says the instance is."""
    if part in ("uuid", "name", "project_id"):
        peer[part] = value
    elif part == "host":
        peer["host"] = {"uuid": value, "name": "s1"}
    else:
        peer["migration"]["new_spec"][part] = value
    return peer


LIES = {
    "uuid": instance_uuid("default", "other"),
    "name": "other",
    "project_id": "another-project",
    "host": instance_uuid("default", "another-host"),
    "flavor": spec("a", vcpus=4)["flavor"],
    "networks": [dict(NIC, source="br-admin")],
    "image": {"name": "guest", "url": "/etc/shadow", "properties": {}},
    "disks": [{"name": "more", "size_gb": 1, "bus": "virtio"}],
    "pool": "another",
    "numa_topology": {"cells": []},
    "pci_requests": [{"alias_name": "gpu", "count": 1}],
    "metadata": {"berth": "evil"},
}


@pytest.mark.parametrize("claimed", [False, True], ids=["at first", "when the claim is taken over"])
@pytest.mark.parametrize("part", LIES)
def test_a_source_that_says_another_thing_than_was_decided_is_refused(part, claimed, fleet):
    owns(fleet["s1"], spec("a"))
    move = Move(fleet, "s1", spec("a", vcpus=2), "op1").begin()
    before = move.claim() if claimed else None
    lie(move.peer, part, LIES[part])
    error = refused(SourceDiffers, move.claim, **({"spec": None} if claimed else {}))
    assert part in error.details["parts"] and "s1" in error.message and part in error.message
    assert fleet["d"].store.read(move.uuid) == before


@pytest.mark.follows("source_differs")
def test_after_a_source_that_differs_the_same_again_moves_what_was_decided(fleet):
    owns(fleet["s1"], spec("a"))
    move = Move(fleet, "s1", spec("a", vcpus=2), "op1").begin()
    honest = copy.deepcopy(move.peer)
    lie(move.peer, "name", "other")
    assert "Run the same again" in refused(SourceDiffers, move.claim).hint
    move.peer = honest
    assert move.claim().name == "a"


HARMLESS = {
    "generation": [10**9, 7],
    "power_state": "crashed {{ evil }}",
    "lost_moves": ["op1", "an-old-one"],
    "phase": "nonsense",
    "resources": {"vcpus": 99},
    "spec": {"flavor": {}},
}


@pytest.mark.parametrize("part", HARMLESS)
def test_what_the_source_may_say_decides_nothing_of_what_is_built(part, fleet):
    owns(fleet["s1"], spec("a"))
    move = Move(fleet, "s1", spec("a", vcpus=2), "op1").begin()
    move.peer[part] = HARMLESS[part]
    record = move.claim()
    assert (record.spec, record.resources["vcpus"]) == (move.decided["spec"], 2)
    assert record.power_state in ("running", "shutdown") and "op1" not in record.lost_moves


MIGRATION_LIES = {
    "source": {"uuid": "x", "name": "x"},
    "destination": {"uuid": "x", "name": "x"},
    "type": "live-migration",
    "confirm_window": 1,
    "attempt": 99,
    "frozen": 1,
    "verified": 1,
    "shared": True,
    "started": True,
    "vm_state_before": "evil",
}


@pytest.mark.parametrize("part", MIGRATION_LIES)
def test_the_destination_makes_its_own_record_of_the_migration(part, fleet):
    owns(fleet["s1"], spec("a"))
    move = Move(fleet, "s1", spec("a", vcpus=2), "op1").begin()
    move.peer["migration"][part] = MIGRATION_LIES[part]
    assert move.claim().migration[part] != MIGRATION_LIES[part]


def test_a_source_whose_disks_are_larger_than_was_decided_is_refused(fleet):
    owns(fleet["s1"], spec("a"))
    move = Move(fleet, "s1", spec("a", vcpus=2), "op1").begin()
    move.peer["migration"]["old_spec"]["flavor"]["root_gb"] = 2
    assert refused(BerthError, move.claim).code == "CannotResizeDisk"


def test_a_host_claims_only_what_is_meant_for_it(fleet):
    owns(fleet["s1"], spec("a"))
    move = Move(fleet, "s1", spec("a", vcpus=2), "op1").begin()
    refused(MigrationConflict, move.claim, destination=fleet["s2"].identity)
    refused(MigrationNotReady, move.claim, spec=None)
    refused(SourceDiffers, move.claim, spec=dict(spec("a", vcpus=2), project_id="another"))
    refused(InvalidInput, move.claim, spec=spec("b", vcpus=2))


@pytest.mark.parametrize(
    "word",
    [{"role": "OWN"}, {"role": "OWN", "op": "op1", "generation": None}, {"role": ["OWN"]}, {"generation": "x"},
     {"migration": []}, {"lost_moves": None}, {"lost_moves": [], "role": None, "op": None}, {"role": None}, {}],
    ids=str,
)  # fmt: skip
def test_a_word_that_is_no_view_of_a_record_is_a_typed_error(word, fleet):
    move = Move(fleet, "s1", spec("a", vcpus=2), "op1")
    move.peer = word
    refused(BerthError, move.claim)
    assert fleet["d"].store.records() == []
