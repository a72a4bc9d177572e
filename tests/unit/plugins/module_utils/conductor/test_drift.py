# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the inventory says otherwise of an instance is told by field, with what helps, and decides nothing."""

from __future__ import annotations

import copy

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.host import facts
from ansible_collections.berth.kvm.plugins.module_utils.conductor import drift
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import read_fleet
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, hints, operation_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.catalog import Catalog
from ansible_collections.berth.kvm.plugins.module_utils.model.packet_hints import filter_nics
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record
from ansible_collections.berth.kvm.plugins.module_utils.placement.request import build_request

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43
OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "B" * 43
LAN = {"type": "bridge", "source": "br0", "cidr": "192.0.2.0/24"}
CATALOG = {
    "berth_flavors": {
        "small": {"vcpus": 1, "memory_mb": 128, "root_gb": 1},
        "large": {"vcpus": 2, "memory_mb": 256, "root_gb": 1},
    },
    "berth_images": {
        name: {"url": "/images/%s.qcow2" % name, "checksum": "sha256:" + "0" * 64, "disk_format": "qcow2"}
        for name in ("guest", "other")
    },
    "berth_networks_defined": {"lan": LAN, "pool": {**LAN, "pool": {"ranges": ["192.0.2.32-192.0.2.63"]}}},
    "berth_server_groups": {"pair": {"policy": "anti-affinity"}},
    "berth_security_groups_defined": {"web": {"rules": [{"protocol": "tcp", "ports": 80}]}},
}
WEB = {
    "inventory_hostname": "web1", "berth_flavor": "small", "berth_image": "guest", "berth_ssh_keys": [KEY],
    "berth_networks": [{"network": "lan", "address": "192.0.2.10"}],
}  # fmt: skip
RESIZE, ANEW = fleet_hints.resize_to_follow("web1"), hints.make_anew_to_follow("web1")
UPDATE = operation_hints.update_to_follow("web1")


def request(given=None, **catalog):
    known = copy.deepcopy({**CATALOG, **catalog})
    return build_request({**WEB, **(given or {})}, Catalog.from_variables(known))[0]


def place(spec):
    """The instance of that request as the facts of its host tell it."""
    record = Record(
        uuid=spec["uuid"], name="web1", project_id="default", role="OWN", generation=[1, 1], token="t", phase="active",
        spec=spec, resources={"vcpus": 1, "memory_mb": 128, "disk_gb": 1},
    )  # fmt: skip
    document = {"uuid": "id-kvm1", "instances": [facts._own(record, {})]}
    return read_fleet({"kvm1": {"document": document}}, dict).places[spec["uuid"]][0]


def small(**changes):
    return {"berth_flavors": {**CATALOG["berth_flavors"], "small": {**CATALOG["berth_flavors"]["small"], **changes}}}


CASES = {
    "nothing": ({}, {}, []),
    "another flavor": ({"berth_flavor": "large"}, {}, ["inventory says large. " + RESIZE]),
    "the flavor's content": (
        {},
        small(vcpus=2, memory_mb=512),
        ["flavor small now means vcpus 2 (has 1), memory_mb 512 (has 128). " + RESIZE],
    ),
    "an extra spec": (
        {},
        small(extra_specs={"hw:watchdog_action": "reset"}),
        ["flavor small now means hw:watchdog_action reset (has nothing). " + RESIZE],
    ),
    "limits": (
        {},
        small(extra_specs={"quota:cpu_shares": "200"}),
        ["flavor small now means quota:cpu_shares 200 (has nothing). " + UPDATE],
    ),
    "limits and a size": (
        {},
        small(extra_specs={"quota:cpu_shares": "200"}, vcpus=2),
        ["flavor small now means vcpus 2 (has 1), quota:cpu_shares 200 (has nothing). " + RESIZE],
    ),
    "keys": ({"berth_ssh_keys": [OTHER_KEY]}, {}, ["inventory says other SSH keys. " + UPDATE]),
    "image": ({"berth_image": "other"}, {}, ["inventory says other image. " + operation_hints.rebuild_to_follow("web1")]),
    "metadata and keys": (
        {"berth_metadata": {"role": "db"}, "berth_ssh_keys": []},
        {},
        ["inventory says other SSH keys and metadata. " + UPDATE],
    ),
    "group": ({"berth_server_group": "pair"}, {}, ["inventory says other server group pair. " + UPDATE]),
    "no NIC": ({"berth_networks": []}, {}, ["inventory says other networks. " + UPDATE]),
    "another address": (
        {"berth_networks": [{"network": "lan", "address": "192.0.2.11"}]}, {}, ["inventory says other networks. " + UPDATE],
    ),
    "no address": ({"berth_networks": [{"network": "lan"}]}, {}, ["inventory says other networks. " + UPDATE]),
    "another bridge": (
        {},
        {"berth_networks_defined": {"lan": {**LAN, "source": "br1"}}},
        ["inventory says other networks. " + UPDATE],
    ),
    "the network's name": (
        {"berth_networks": [{"network": "net", "address": "192.0.2.10"}]}, {"berth_networks_defined": {"net": LAN}}, [],
    ),
    "a data disk": (
        {"berth_disks": [{"name": "logs", "size_gb": 2}]},
        {},
        ["has no data disk logs. " + hints.update_disks_to_follow("web1")],
    ),
    "security groups": (
        {"berth_security_groups": ["web"]},
        {},
        ["inventory says other security groups. " + fleet_hints.create_to_filter("web1")],
    ),
}  # fmt: skip


def test_of_another_image_of_an_adopted_one_nobody_is_told_to_rebuild_it():
    adopted = {**place(request()), "adopted": "Web_1"}
    (said,) = drift.differences("web1", adopted, request({"berth_image": "other"}))
    assert said == "inventory says other image, which counts for nothing: it was adopted"


@pytest.mark.parametrize("case", CASES)
def test_what_the_inventory_says_otherwise_is_told_by_its_name_with_what_helps(case):
    given, catalog, said = CASES[case]
    assert drift.differences("web1", place(request()), request(given, **catalog)) == said


@pytest.mark.parametrize(
    "group, said",
    [
        pytest.param({"policy": "affinity"}, True, id="another-policy"),
        pytest.param({"policy": "anti-affinity", "rules": {"max_server_per_host": 2}}, True, id="another-rule"),
        pytest.param({"policy": "anti-affinity", "rules": {"max_server_per_host": 1}}, False, id="the-default-rule"),
    ],
)
def test_another_policy_of_its_server_group_is_told(group, said):
    in_pair = {"berth_server_group": "pair"}
    found = drift.differences("web1", place(request(in_pair)), request(in_pair, berth_server_groups={"pair": group}))
    assert found == ["inventory says other policy of server group pair. " + UPDATE] * said


def test_the_members_of_a_server_group_are_no_difference():
    has, wanted = request({"berth_server_group": "pair"}), request({"berth_server_group": "pair"})
    has["group"]["members"] = ["d3b0ee1e-4f5a-5c0b-9f77-0c8e2d1a6b55"]
    assert drift.differences("web1", place(has), wanted) == []


FILTERED = {"berth_networks": [{"network": "lan", "address": "192.0.2.10", "port_security": True}]}
LACKS = "network interface %s has no packet filter"


def unfiltered():
    """The instance as a version without filters made it."""
    made = request()
    for nic in made["networks"]:
        del nic["security"]
    return made


@pytest.mark.parametrize(
    "given, catalog, groups",
    [
        (FILTERED, {}, ""),
        ({}, {"berth_networks_defined": {"lan": {**LAN, "port_security": True}}}, ""),
        ({**FILTERED, "berth_security_groups": ["web"]}, {}, ", so it is not in web"),
        ({"berth_security_groups": ["web"]}, {}, ", so it is not in web"),
    ],
    ids=["of the NIC", "of the network", "and groups", "groups alone"],
)
def test_a_nic_without_the_packet_filter_that_the_inventory_asks_for_is_told(given, catalog, groups):
    made, asked = unfiltered(), given is FILTERED or bool(catalog) or "berth_networks" in given
    said = LACKS % made["networks"][0]["mac"] + groups + ". " + filter_nics("web1", asked)
    assert drift.differences("web1", place(made), request(given, **catalog)) == [said]
    assert drift.differences("web1", place(request()), request(FILTERED)) == [], "it has one"


def test_a_nic_without_a_packet_filter_is_not_told_where_the_inventory_is_silent_or_libvirt_has_none_for_it():
    assert drift.differences("web1", place(unfiltered()), request()) == []
    made = unfiltered()
    made["networks"][0]["virtualport"] = "openvswitch"
    assert LACKS % made["networks"][0]["mac"] not in " ".join(drift.differences("web1", place(made), request(FILTERED)))


def test_an_address_that_a_pool_gave_is_as_it_should_be_also_where_the_inventory_fixes_it_later():
    pooled = request({"berth_networks": [{"network": "pool"}]})
    made = copy.deepcopy(pooled)
    made["networks"][0]["address"] = "192.0.2.40/24"
    assert drift.differences("web1", place(made), pooled) == []
    fixed = request({"berth_networks": [{"network": "pool", "address": "192.0.2.40"}]})
    assert drift.differences("web1", place(made), fixed) == []


def test_an_order_of_keys_is_no_difference():
    has, wanted = ({"berth_ssh_keys": keys} for keys in ([KEY, OTHER_KEY], [OTHER_KEY, KEY]))
    assert drift.differences("web1", place(request(has)), request(wanted)) == []


def test_of_what_an_older_version_did_not_write_nothing_is_told():
    old = request()
    del old["ssh_keys_digest"], old["metadata"]
    wanted = request({"berth_ssh_keys": [OTHER_KEY], "berth_metadata": {"role": "db"}})
    assert drift.differences("web1", place(old), wanted) == []
    without = {**place(request()), "request_digests": None, "disks": None}
    assert drift.differences("web1", without, request({"berth_ssh_keys": [], "berth_networks": []})) == []


BY_HAND = {
    "now": [["network interface 02:00:00:00:00:01", "bridge br0 virtio", ""]],
    "next_start": [["vcpus", "1", "2"]],
}


def test_what_somebody_changed_in_libvirt_is_told_with_when_it_is_mended():
    gone = "live domain differs: network interface 02:00:00:00:00:01 missing; repaired at the next start"
    assert drift.of_domain("web1", None) is drift.of_domain("web1", {}) is None
    assert drift.of_domain("web1", {"now": BY_HAND["now"]}) == gone
    said = drift.of_domain("web1", {"next_start": BY_HAND["next_start"]})
    repaired = "repaired at the next start or with %s" % hints.mend("web1")
    assert said == "live domain differs: vcpus 2 (record: 1); %s" % repaired
    assert drift.of_domain("web1", BY_HAND).startswith("live domain differs: vcpus 2 (record: 1), network interface")


def test_neither_keys_nor_user_data_nor_metadata_are_in_the_facts():
    told = place(request({"berth_metadata": {"password": "canary"}, "berth_user_data": "#cloud-config canary"}))
    assert KEY not in str(told) and "canary" not in str(told)


def test_an_instance_that_waits_for_its_confirmation_is_not_told_to_resize():
    resized = {**place(request()), "phase": "resized"}
    assert drift.differences("web1", resized, request({"berth_flavor": "large"})) == ["inventory says large"]
    assert drift.differences("web1", resized, request(**small(vcpus=2))) == ["flavor small now means vcpus 2 (has 1)"]


@pytest.mark.follows("keep_flavor")
def test_a_resize_that_would_shrink_a_disk_is_not_advised():
    big = {"berth_flavors": {**CATALOG["berth_flavors"], "big": {"vcpus": 1, "memory_mb": 128, "root_gb": 2}}}
    (said,) = drift.differences("web1", place(request({"berth_flavor": "big"}, **big)), request(**big))
    assert said.startswith("inventory says small. Unable to resize disk down: root_gb of big is 2 GiB, of small 1 GiB")
    assert said.endswith(fleet_hints.keep_flavor("web1", "big", "small")) and "berth_flavor: big" in said
    assert RESIZE not in said
    assert (
        drift.differences(
            "web1", place(request({"berth_flavor": "big"}, **big)), request({"berth_flavor": "big"}, **big)
        )
        == []
    )
    (said,) = drift.differences("web1", place(request(**small(root_gb=3))), request())
    assert said.endswith(fleet_hints.keep_flavor("web1", "small", "small")) and RESIZE not in said


def test_no_difference_is_mended_by_a_delete():
    assert "berth.kvm.delete" not in ANEW and "loses all that is on its disks" in ANEW
