# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts of a lab go to a registry in a real etcd and back, are compared with it, and are read into it by cells."""

from __future__ import annotations

import json
import os
import signal

import pytest
from conftest import make_whole
from registry_fixture import IS_HERE, of_one_member, playing  # noqa: F401  pylint: disable=unused-import

from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Scan, Transact, Write
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import keys
from playbooks import catalog, homes, vm

pytestmark = pytest.mark.skipif(not IS_HERE, reason="there is no etcd on this machine")
INSTANCES = {"web1": vm(), "web2": vm(server_group="pair")}


@pytest.fixture(scope="module")
def fleet(prepared_lab, image, registry, tmp_path_factory):
    """play(playbook, **variables) over the registry; the hosts have two instances, and belong to no registry at the end."""
    make_whole(prepared_lab)
    path = tmp_path_factory.mktemp("fleet") / "instances.yml"
    cells = {"cell1": {"hosts": {prepared_lab.host(1): {}}}, "cell2": {"hosts": {prepared_lab.host(2): {}}}}
    children = {"instances": {"hosts": INSTANCES}, **cells}
    path.write_text(json.dumps({"all": {"vars": catalog(image), "children": children}}))

    def started(playbook, **variables):
        given = {**registry.variables, **variables}
        return prepared_lab.start_playbook("berth.kvm." + playbook, inventory=[path], extra_vars=given)

    play = playing(prepared_lab, path, registry)
    play.started = started
    play("create", over=None)
    yield play
    play("use_registry", berth_leave_registry=True)
    make_whole(prepared_lab)


@pytest.mark.follows("take_registry_out")
def test_the_fleet_goes_to_the_registry_and_back_with_the_same_instances(fleet, registry):
    before = homes(fleet.lab)
    fleet("use_registry", "--check")
    assert registry.read(keys.META) is None
    done = fleet("use_registry")
    assert "3 hosts, with 2 instances, belong to the registry now" in done.output
    assert set(registry.owners()) == set(before) and homes(fleet.lab) == before
    refused = fleet("create", over=None, berth_name="web3", **vm(), check=False)
    assert refused.rc and "belongs to the etcd registry" in refused.output, refused.output
    done = fleet("use_registry", "--check")
    assert "3 hosts, with 2 instances, belong to the registry." in done.output
    done = fleet("use_registry", berth_leave_registry=True)
    assert "are without a registry now. Take berth_registry out of the inventory" in done.output
    assert homes(fleet.lab) == before and registry.read(keys.META)["open"] is False
    fleet("create", over=None)
    assert homes(fleet.lab) == before
    fleet("use_registry")
    assert registry.read(keys.META)["open"] and set(registry.owners()) == set(before)


# What the registry says when the run is killed. What comes within milliseconds is cut in test_use_registry.py of the unit tests.
CUT = {
    "to it, closed": (False, lambda registry: registry.read(keys.META) is not None),
    "from it, closed": (True, lambda registry: not registry.read(keys.META)["open"]),
    "from it, no way back": (True, lambda registry: registry.read(keys.META).get("before") == ""),
}


@pytest.mark.slow
@pytest.mark.parametrize("when", CUT)
def test_a_run_that_is_killed_is_finished_by_the_next(fleet, registry, when):
    leaves, is_there = CUT[when]
    fleet("use_registry", berth_leave_registry=not leaves)
    if not leaves:
        found = registry.engine.scan(Scan(keys.META[: -len("meta")]))["found"]
        registry.engine.transact(Transact(writes=tuple(Write(key, None) for key in found)))
    before = homes(fleet.lab)
    process = fleet.started("use_registry", berth_leave_registry=leaves)
    while not is_there(registry):
        assert process.poll() is None, process.stdout.read()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    refused = fleet("create", berth_name="web3", **vm(), check=False)
    assert refused.rc and "RegistryClosed" in refused.output, refused.output
    fleet("use_registry", berth_leave_registry=leaves)
    assert homes(fleet.lab) == before and registry.read(keys.META)["open"] is not leaves
    over = None if leaves else registry
    assert not any(fleet("create", over=over).changed.values())


def test_an_audit_says_by_name_what_differs_and_mends_it(fleet, registry):
    fleet("use_registry")
    assert "The registry says what the hosts say." in fleet("audit").output
    (key,) = [
        each for each in registry.engine.scan(Scan(keys.INSTANCES))["found"] if registry.read(each)["name"] == "web1"
    ]
    entry = registry.read(key)
    registry.write(key, None)
    told = fleet("audit", "--check").output
    assert "web1: " in told and "Would be mended" in told and registry.read(key) is None
    told = fleet("audit").output
    assert "web1: " in told and "Mended" in told
    assert registry.read(key)["owner"] == entry["owner"] and registry.read(key)["epoch"] == entry["epoch"]
    registry.write(key, {**entry, "epoch": 9})
    told = fleet("audit", check=False)
    assert told.rc and "epoch 9" in told.output and "1 of the differences above are left to you" in told.output
    registry.write(key, entry)


def test_a_registry_that_was_restored_opens_after_an_audit_of_all_hosts(fleet, registry):
    fleet("use_registry")
    registry.write(keys.META, {"schema": 1, "kind": "etcd", "incarnation": "restored", "open": False})
    fleet.lab.crash(fleet.lab.host(3))
    told = fleet("audit", check=False)
    assert told.rc and fleet.lab.host(3) in told.output and not registry.read(keys.META)["open"]
    fleet.lab.start(fleet.lab.host(3))
    assert "The registry is open now" in fleet("audit").output
    assert registry.read(keys.META)["open"]
    assert "The registry says what the hosts say." in fleet("audit").output


def test_each_cell_is_read_by_a_run_of_its_own(fleet, registry):
    fleet("use_registry")
    at = dict(registry.engine.scan(Scan(keys.HOSTS))["found"])
    done = fleet("refresh", "--limit", "cell1")
    assert "1 hosts were read into the registry." in done.output
    now = registry.engine.scan(Scan(keys.HOSTS))["found"]
    assert [json.loads(now[key].value)["name"] for key in now if now[key] != at[key]] == [fleet.lab.host(1)]
    refused = fleet("refresh", "--limit", "web1", check=False)
    assert refused.rc and "selects no KVM host" in refused.output
