# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What users run on a fleet whose hosts belong to a registry in a real etcd: create, stop, start, show and delete, also while the
registry is away, and what a host of another registry does."""

from __future__ import annotations

import json

import pytest
from conftest import make_whole
from registry_fixture import IS_HERE, of_one_member, over_tls, playing  # noqa: F401  pylint: disable=unused-import

from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import keys
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from playbooks import catalog, homes, left, vm

pytestmark = pytest.mark.skipif(not IS_HERE, reason="there is no etcd on this machine")
INSTANCES = {"web1": vm(server_group="pair"), "web2": vm(server_group="pair")}


@pytest.fixture(scope="module")
def fleet(prepared_lab, image, registry, tmp_path_factory):
    """play(playbook, **variables) over the registry, to which the hosts belong."""
    make_whole(prepared_lab)
    path = tmp_path_factory.mktemp("fleet") / "instances.yml"
    quotas = {"default": {"instances": 2}}
    path.write_text(
        json.dumps(
            {"all": {"vars": catalog(image, berth_quotas=quotas), "children": {"instances": {"hosts": INSTANCES}}}}
        )
    )

    play = playing(prepared_lab, path, registry)
    play("use_registry")
    yield play
    play("use_registry", berth_leave_registry=True)
    make_whole(prepared_lab)


def test_the_life_of_instances_over_a_registry(fleet, registry):
    planned = fleet("create", "--check")
    assert planned.stdout.count("would be made") == 2 and registry.owners() == {} and left(fleet.lab) == {}

    done = fleet("create")
    where = homes(fleet.lab)
    assert {name: done.changed[name] for name in INSTANCES} == dict.fromkeys(INSTANCES, 1)
    assert set(registry.owners()) == set(INSTANCES) and where["web1"] != where["web2"]
    assert fleet("create").changed.get("web1", 0) == 0 and homes(fleet.lab) == where

    full = fleet("create", berth_name="web3", check=False, **vm())
    assert full.rc and "QuotaExceeded" in full.output, full.output

    assert fleet("stop", "--limit", "web1").changed["web1"] == 1
    assert "stopped" in fleet("show", "--limit", "web1").stdout
    assert fleet("start", "--limit", "web1").changed["web1"] == 1
    assert fleet("list").stdout.count("active") >= 2

    fleet("delete", "--limit", "web2")
    assert set(registry.owners()) == {"web1"} and set(homes(fleet.lab)) == {"web1"}
    fleet("create", berth_name="web3", **vm())
    assert set(registry.owners()) == {"web1", "web3"}
    fleet("delete", "-e", "berth_name=web3")
    fleet("delete", "--limit", "web1")
    assert registry.owners() == {} and left(fleet.lab) == {}


def test_hosts_that_are_not_chosen_need_not_be_there(fleet, registry):
    """The registry knows what they have; a create asks the chosen host, and alternates if that one is away."""
    away = fleet.lab.host(3)
    fleet.lab.crash(3)
    try:
        done = fleet("create", "--limit", "web1", berth_target_host=fleet.lab.host(1))
        assert away not in done.output and set(registry.owners()) == {"web1"}
        fleet("stop", "--limit", "web1")
        fleet("delete", "--limit", "web1")
    finally:
        fleet.lab.start(3)
        make_whole(fleet.lab)
    assert registry.owners() == {}


def test_without_the_registry_nothing_is_created_and_guests_are_stopped_and_started(fleet, registry):
    fleet("create", "--limit", "web1")
    registry.members.kill()
    try:
        refused = fleet("create", "--limit", "web2", check=False)
        assert refused.rc and "RegistryUnknown" in refused.output and "web2" not in homes(fleet.lab)
        refused = fleet("delete", "--limit", "web1", check=False)
        assert refused.rc and "RegistryUnknown" in refused.output and "web1" in homes(fleet.lab)
        assert fleet("stop", "--limit", "web1").changed["web1"] == 1
        assert fleet("start", "--limit", "web1").changed["web1"] == 1
        assert "active" in fleet("show", "--limit", "web1").stdout
    finally:
        registry.members.start()
        registry.members.wait(registry.engine)
    fleet("create", "--limit", "web2")
    assert set(registry.owners()) == set(INSTANCES)
    fleet("delete", berth_all=True)


@pytest.mark.follows("use_its_registry")
def test_a_run_without_the_registry_of_the_hosts_or_over_another_one_makes_nothing(fleet, registry, tmp_path):
    refused = fleet("create", "--limit", "web1", over=None, check=False)
    assert refused.rc and "RegistryDiffers" in refused.output and left(fleet.lab) == {}
    assert "-e berth_registry= as in the inventory" in refused.output
    with over_tls(tmp_path) as other:
        refused = fleet("create", "--limit", "web1", over=other, check=False)
        assert refused.rc and "the registry is empty" in refused.output and left(fleet.lab) == {}
    fleet("create", "--limit", "web1")
    assert set(registry.owners()) == {"web1"}
    fleet("delete", "--limit", "web1")


@pytest.mark.slow
def test_an_instance_is_changed_renamed_and_cloned_over_a_registry(fleet, registry, image, tmp_path):
    def over(name, **more):
        path, every = tmp_path / ("%s.yml" % name), catalog(image, berth_volumes_defined={"db": {"size_gb": 1}})
        hosts = {name: vm(**more)}
        path.write_text(json.dumps({"all": {"vars": every, "children": {"instances": {"hosts": hosts}}}}))
        return playing(fleet.lab, path, registry)

    def held():
        return len(registry.keys(keys.MACS)), len(registry.keys(keys.VOLUMES))

    over("web1")("create", "--limit", "web1")
    assert held() == (1, 0)
    fleet("stop", "--limit", "web1")  # the running guest has not enough free PCI slots
    larger = over("web1", networks=["lan", "lan"], volumes=["db"])
    assert larger("update", "--limit", "web1").changed["web1"] == 1 and held() == (2, 1)
    assert registry.read(keys.quota("default"))["gigabytes"] == 1
    assert larger("update", "--limit", "web1").changed.get("web1", 0) == 0
    assert over("web1", volumes=[])("update", "--limit", "web1").changed["web1"] == 1 and held() == (1, 0)

    done = over("web1")("rename", "--limit", "web1", berth_new_name="web9")
    assert set(registry.owners()) == set(homes(fleet.lab)) == {"web9"}, done.output
    renamed = over("web9", uuid=instance_uuid("default", "web1"))
    taken = renamed("create", berth_name="web9", check=False, **vm())
    assert taken.changed.get("web9", 0) == 0 and set(homes(fleet.lab)) == {"web9"}

    renamed("clone", berth_name="web9", berth_new_name="web8")
    where = homes(fleet.lab)
    assert set(registry.owners()) == set(where) == {"web8", "web9"} and where["web8"] == where["web9"]
    renamed("delete", berth_name="web8")
    renamed("delete", "--limit", "web9")
    assert registry.owners() == {} and registry.keys(keys.NAMES) == [] and left(fleet.lab) == {}
