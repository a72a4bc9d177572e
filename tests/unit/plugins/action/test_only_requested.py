# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""create -e berth_name=X of an instance that exists: its own record says its flavor and its image."""

from __future__ import annotations

import pytest
from controller import Controller
from held_case import WEB, held
from placement_case import CATALOG, facts

from ansible_collections.berth.kvm.plugins.action import create_instances
from ansible_collections.berth.kvm.plugins.module_utils.model.request_digest import digests

HAS = {
    "name": "old", "vcpus": 2, "memory_mb": 256, "root_gb": 3, "ephemeral_gb": 0, "swap": 0, "extra_specs": {"x": "y"},
}  # fmt: skip
MADE = {
    "flavor": HAS, "image_props": {"hw_disk_bus": "scsi"}, "request_digests": digests({"image": {"name": "guest"}}),
}  # fmt: skip


def controller(variables, group="berth_requested", there=True, **changes):
    one = [held(**{**MADE, **changes})] if there else []
    document = facts("h1", instances=one, num_instances=len(one))
    groups = {"kvm_hosts": ["h1", "h2"], group: ["web1"]}
    given = {"all": {**CATALOG, "berth_name": "web1"}, "web1": variables}
    return Controller(groups, given, {"h1": document, "h2": facts("h2")})


def create(variables, **more):
    it = controller(variables, **more)
    return it, it.run("placement", {"instances": ["web1"], "plan": True})


def planned(variables, **more):
    _it, result = create(variables, **more)
    return result["ansible_facts"]["berth_plan"]["instances"]["web1"]


@pytest.mark.parametrize("given", [{}, {"berth_flavor": "", "berth_image": ""}, {"berth_image": "guest"}])
def test_what_exists_needs_neither_flavor_nor_image_and_differs_in_none(given):
    instance = planned({"berth_mend": True, **given})
    assert (instance["uuid"], instance["host"], instance["existing"], instance["mend"]) == (WEB, "h1", True, True)
    assert instance["spec"]["flavor"]["name"] == "old" and instance["spec"]["flavor"]["vcpus"] == 2
    assert not instance["differs"]


def test_the_flavor_of_the_record_counts_where_the_catalog_has_another_of_its_name():
    instance = planned({}, flavor={**HAS, "name": "tiny"})
    assert instance["spec"]["flavor"]["memory_mb"] == 256 and not instance["differs"]


def test_what_is_said_is_compared_all_the_same():
    older = {"flavor": {**HAS, "name": "tiny"}, "request_digests": digests({"image": {"name": "older"}})}
    differs = " ".join(planned({"berth_flavor": "tiny", "berth_image": "guest"}, **older)["differs"])
    assert "flavor tiny now means" in differs and "image" in differs


def test_what_no_host_has_needs_both():
    for more in ({"there": False}, {"role": "CLAIM", "phase": "claimed", "vm_state": "building"}):
        _it, result = create({"berth_mend": True}, **more)
        assert result["error_code"] == "InvalidInput" and "berth_flavor" in result["msg"], more


def test_an_instance_of_the_inventory_says_what_it_should_have():
    _it, result = create({"berth_flavor": "tiny"}, group="vms")
    assert result["error_code"] == "InvalidInput" and "berth_image" in result["msg"]


def test_its_host_is_asked_as_for_any_other(monkeypatch):
    it, result = create({"berth_mend": True})
    instance = result["ansible_facts"]["berth_plan"]["instances"]["web1"]
    wanted = create_instances._built(it.task_vars(), "web1", instance)
    assert wanted["mend"] and wanted["spec"] == instance["spec"]
