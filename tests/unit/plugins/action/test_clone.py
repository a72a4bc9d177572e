# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""berth.kvm.clone: the request of the new instance, where it goes, and what is refused before anything is claimed."""

from __future__ import annotations

import pytest
from ansible.template import trust_as_template
from controller import Controller
from held_case import WEB, held
from placement_case import CATALOG, VM, facts

from ansible_collections.berth.kvm.plugins.action import create_instances
from ansible_collections.berth.kvm.plugins.module_utils.model import clone_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.request_digest import digests
from ansible_collections.berth.kvm.plugins.plugin_utils import berth_name
from ansible_collections.berth.kvm.plugins.plugin_utils.inventory_variables import raw_vars

TINY = {
    "name": "tiny", "vcpus": 1, "memory_mb": 128, "root_gb": 1, "ephemeral_gb": 0, "swap": 0, "extra_specs": {},
}  # fmt: skip
COPY = instance_uuid("default", "web2")


def controller(web1=None, web2=None, listed=True, others=(), more=None, **changes):
    """web1 on h2, with these ``changes`` of what its host tells; web2 in the inventory if that gives it variables."""
    has = held(**{"flavor": TINY, "disks": {}, **changes})
    groups = {"kvm_hosts": ["h1", "h2"], "berth_requested": ["web2"]}
    groups["vms" if listed else "known"] = ["web1"]
    if web2 is not None:
        groups["own"], web2 = ["web2"], {"inventory_file": "fleet.yml", **web2}
    given = {"all": {**CATALOG, "berth_name": "web1", "berth_new_name": "web2", **(more or {})}}
    its = VM if web1 is None else web1
    given.update(web1=its if listed else {}, web2={"berth_clone_of": "web1", **(web2 or {})})
    instances = [has, *others]
    document = facts("h2", instances=instances, num_instances=len(instances))
    return Controller(groups, given, {"h1": facts("h1"), "h2": document})


def clone(**more):
    it = controller(**more)
    return it, it.run("placement", {"instances": ["web2"], "plan": True})


def planned(**more):
    _it, result = clone(**more)
    return result["ansible_facts"]["berth_plan"]["instances"]["web2"]


def refused(**more):
    _it, result = clone(**more)
    assert not result.get("ansible_facts", {}).get("berth_plan", {}).get("claims")
    assert result.get("failed"), result
    return result["error_code"], result["msg"]


def test_a_clone_goes_to_the_host_that_has_the_disks_with_an_identity_of_its_own():
    made = planned()
    assert (made["uuid"], made["host"], made["state"]) == (COPY, "h2", "claiming")
    assert made["spec"]["clone_of"] == WEB and made["spec"]["flavor"]["name"] == "tiny"


def test_a_clone_that_no_inventory_has_is_as_the_inventory_has_its_source_but_for_its_volumes():
    web1 = {**VM, "berth_networks": ["lan"], "berth_ssh_keys": [trust_as_template("ssh-ed25519 AAAA {{ inventory_hostname }}")],
            "berth_volumes": ["v"], "berth_locked": True}  # fmt: skip
    it, result = clone(web1=web1)
    made = result["ansible_facts"]["berth_plan"]["instances"]["web2"]
    assert [nic["network"] for nic in made["spec"]["networks"]] == ["lan"] and not made["spec"].get("volumes")
    assert made["spec"]["networks"][0]["mac"] and not made.get("locked")
    wanted = create_instances._built(it.task_vars(), "web2", made)
    assert wanted["seed"]["ssh_keys"] == ["ssh-ed25519 AAAA web2"] and wanted["spec"]["clone_of"] == WEB


def test_a_flavor_from_the_command_line_or_for_all_leaves_a_clone_the_networks_of_its_source():
    it, result = clone(web1={**VM, "berth_networks": ["lan"]}, more={"berth_flavor": "tiny"})
    made = result["ansible_facts"]["berth_plan"]["instances"]["web2"]
    assert [nic["network"] for nic in made["spec"]["networks"]] == ["lan"]


def test_what_the_source_has_of_its_own_counts_for_its_clone_before_what_all_have():
    _it, result = clone(web1={**VM, "berth_metadata": {"a": "its"}}, more={"berth_metadata": {"a": "of all"}})
    assert result["ansible_facts"]["berth_plan"]["instances"]["web2"]["spec"]["metadata"] == {"a": "its"}


def test_a_clone_that_the_inventory_has_is_as_it_says():
    it = controller(web1={**VM, "berth_networks": ["lan"]}, web2={**VM, "berth_metadata": {"a": "b"}})
    assert "berth_networks" not in raw_vars(it.task_vars(), "web2")
    made = it.run("placement", {"instances": ["web2"], "plan": True})
    spec = made["ansible_facts"]["berth_plan"]["instances"]["web2"]["spec"]
    assert spec["metadata"] == {"a": "b"} and spec["networks"] == []


def test_a_clone_of_what_no_inventory_has_gets_flavor_and_data_disks_of_the_record():
    it, result = clone(listed=False, disks={"db": 3})
    made = result["ansible_facts"]["berth_plan"]["instances"]["web2"]
    assert made["spec"]["flavor"]["name"] == "tiny" and [each["name"] for each in made["spec"]["disks"]] == ["db"]
    assert create_instances._built(it.task_vars(), "web2", made)["spec"]["clone_of"] == WEB


@pytest.mark.parametrize(
    "changes", [{"vm_state": "error"}, {"phase": "building"}, {"phase": "deleting"}, {"role": "OUT", "phase": "keep"}]
)
def test_what_is_not_at_rest_is_not_cloned(changes):
    code, message = refused(**changes)
    assert code in ("InstanceInvalidState", "InstanceMoving") and "web1" in message, (code, message)


def test_an_adopted_instance_is_not_cloned():
    assert refused(adopted="web1")[0] == "AdoptedNotSupported"


@pytest.mark.follows("move_afterwards")
def test_a_clone_is_made_on_no_other_host_and_can_be_moved_afterwards():
    code, message = refused(web2={**VM, "berth_target_host": "h1"})
    assert code == "CloneNotPossible" and "the disks of web1 are on h2" in message
    assert clone_hints.move_afterwards("web2", "web1") in message
    assert planned(web2=VM)["host"] == "h2"


@pytest.mark.follows("leave_group")
def test_a_clone_for_which_its_anti_affinity_group_has_no_place_on_the_host_of_its_source_may_leave_the_group():
    group = {"berth_server_groups": {"web": {"policy": "anti-affinity"}}}
    web1, is_in = {**VM, "berth_server_group": "web"}, {"group": "web"}
    code, message = refused(web1=web1, more=group, **is_in)
    assert code == "CloneNotPossible" and "group web has 1 of at most 1 members on h2" in message
    assert clone_hints.leave_group("web2", "web1") in message
    assert planned(web1=web1, web2={**VM, "berth_server_group": ""}, more=group, **is_in)["host"] == "h2"
    two = {"berth_server_groups": {"web": {"policy": "anti-affinity", "rules": {"max_server_per_host": 2}}}}
    assert planned(web1=web1, more=two, **is_in)["spec"]["group"]["name"] == "web"


@pytest.mark.parametrize(
    "where", [{"berth_target_host": "h1"}, {"berth_force_hosts": ["h1"]}, {"berth_ignore_hosts": ["h2"]}]
)
def test_where_the_source_was_to_be_made_does_not_count_for_its_clone_since_it_may_have_moved(where):
    assert planned(web1={**VM, **where})["host"] == "h2"


@pytest.mark.parametrize("source", ["gone", ["web1"], {"a": 1}, 7, "", "web*"])
def test_a_source_that_nothing_has_is_told_by_its_name(source):
    code, message = refused(web2={**VM, "berth_clone_of": source})
    assert code == ("InstanceNotFound" if source == "gone" else "InvalidInput"), message
    assert "no host has gone" in message or "berth_clone_of" in message


def test_a_clone_that_is_made_stays_as_it_is_when_the_inventory_has_no_source_any_more():
    made = planned(web2={**VM, "berth_clone_of": "gone"}, others=[copy_of(instance_uuid("default", "gone"))])
    assert made["existing"] and made["host"] == "h2"


@pytest.mark.follows("choose_larger_flavor")
def test_a_clone_with_a_smaller_root_disk_is_refused():
    code, message = refused(flavor={**TINY, "root_gb": 3})
    assert code == "CloneNotPossible" and "flavor tiny has a root disk of 1 GiB, that of web1 has 3" in message
    assert clone_hints.choose_larger_flavor() in message
    assert planned(listed=False, flavor={**TINY, "root_gb": 3})["state"] == "claiming"


@pytest.mark.follows("name_its_disks")
def test_a_clone_without_a_data_disk_of_its_source_is_refused():
    code, message = refused(web2=VM, disks={"db": 3})
    assert code == "CloneNotPossible" and "web2 has no data disk db, which web1 has" in message
    assert clone_hints.name_its_disks() in message
    assert planned(web2={**VM, "berth_disks": {"db": {"size_gb": 3}}}, disks={"db": 3})["state"] == "claiming"


def copy_of(uuid):
    return held(uuid=COPY, name="web2", flavor=TINY, disks={}, request_digests=digests({"clone_of": uuid}))


def test_a_clone_that_is_made_stays_as_it_is_also_when_its_source_is_gone():
    for changes in ({}, {"vm_state": "error"}):
        made = planned(others=[copy_of(WEB)], **changes)
        assert made["existing"] and made["host"] == "h2"


@pytest.mark.follows("name_another")
def test_another_instance_of_that_name_is_no_clone():
    code, message = refused(others=[copy_of(COPY)])
    assert code == "CloneNotPossible" and "web2 exists on h2, and is no clone of web1" in message
    assert clone_hints.name_another("web1") in message
    assert planned()["state"] == "claiming"


@pytest.mark.follows("name_clone")
@pytest.mark.parametrize(
    ("given", "wrong"),
    [({"berth_name": "web1"}, ["berth_new_name"]), ({"berth_new_name": "web2"}, ["berth_name"]), ({}, ["berth_name", "berth_new_name"]),
     ({"berth_name": "web*", "berth_new_name": "web2"}, ["berth_name"]),
     ({"berth_name": "web1", "berth_new_name": "web2", "berth_count": "3"}, ["berth_count"])],
)  # fmt: skip
def test_a_clone_is_of_one_instance_into_one_which_both_have_a_name(given, wrong):
    with pytest.raises(InvalidInput) as caught:
        berth_name.check_clone({berth_name.CLONES: True}, given)
    assert clone_hints.name_clone() in str(caught.value) and all(each in str(caught.value) for each in wrong)
    berth_name.check_clone({berth_name.CLONES: True}, {"berth_name": "web1", "berth_new_name": "web2"})


def test_a_limit_chooses_no_clone():
    with pytest.raises(InvalidInput, match="--limit"):
        both = {"berth_name": "web1", "berth_new_name": "web2"}
        berth_name.check_clone({berth_name.CLONES: True, "ansible_limit": "web1"}, both)
