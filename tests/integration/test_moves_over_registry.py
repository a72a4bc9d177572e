# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resize, confirm, revert and live migration on a fleet whose hosts belong to a registry in a real etcd, and what a run that was
killed has left there."""

from __future__ import annotations

import json

import pytest
from conftest import make_whole
from registry_fixture import IS_HERE, of_one_member, playing  # noqa: F401  pylint: disable=unused-import

from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import keys
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from playbooks import catalog, homes, left, records, vm

pytestmark = pytest.mark.skipif(not IS_HERE, reason="there is no etcd on this machine")
WEB1 = keys.instance(instance_uuid("default", "web1"))
LARGER = {"berth_flavor": "two"}


@pytest.fixture(scope="module")
def fleet(prepared_lab, image, registry, tmp_path_factory):
    """play(playbook, **variables) over the registry, to which the hosts belong. Of three cores web1 has one."""
    make_whole(prepared_lab)
    path = tmp_path_factory.mktemp("fleet") / "instances.yml"
    variables = catalog(image, berth_quotas={"default": {"cores": 3}})
    path.write_text(json.dumps({"all": {"vars": variables, "children": {"instances": {"hosts": {"web1": vm()}}}}}))
    play = playing(prepared_lab, path, registry)
    play("use_registry")
    play("create")
    yield play
    play("delete", berth_all=True)
    assert registry.owners() == {} and left(prepared_lab) == {}
    play("use_registry", berth_leave_registry=True)
    make_whole(prepared_lab)


def entry(registry, lab):
    """(name of the owner, those of the hosts that have a part in a move, cores) by the registry."""
    found = registry.read(WEB1)
    names = {uuid: registry.read(keys.host(uuid))["name"] for uuid in keys.hosts_of(found)}
    assert homes(lab)["web1"] == names[found["owner"]]
    cores = registry.read(keys.quota("default"))["cores"]
    assert cores == found["amounts"]["cores"]
    return names[found["owner"]], [names[each["host"]] for each in found["pending"]], cores


def test_a_resize_holds_both_flavors_until_it_is_confirmed_or_reverted(fleet, registry):
    source, pending, cores = entry(registry, fleet.lab)
    assert (pending, cores) == ([], 1)
    fleet("resize", "--limit", "web1", **LARGER)
    assert entry(registry, fleet.lab)[1:] == ([source], 3) and homes(fleet.lab)["web1"] != source
    full = fleet("create", berth_name="web2", check=False, **vm())
    assert full.rc and "QuotaExceeded" in full.output, full.output
    fleet("revert_resize", "--limit", "web1", **LARGER)
    assert entry(registry, fleet.lab) == (source, [], 1)

    fleet("resize", "--limit", "web1", **LARGER)
    owner = homes(fleet.lab)["web1"]
    fleet("confirm_resize", "--limit", "web1", **LARGER)
    assert entry(registry, fleet.lab) == (owner, [], 2) and records(fleet.lab) == [(owner, "web1", "OWN")]
    assert "differs" not in fleet("audit").output


def test_a_guest_moves_live_and_a_dead_run_is_taken_over(fleet, registry):
    """That run was killed between its word to the registry and its first leg."""
    source, _pending, cores = entry(registry, fleet.lab)
    other = next(host for host in map(fleet.lab.host, (1, 2, 3)) if host != source)
    uuids = {registry.read(key)["name"]: key for key in registry.keys(keys.HOSTS)}
    intent = {
        "run": "killed",
        "kind": keys.MOVE,
        "host": uuids[other][len(keys.HOSTS) :],
        "op": "0" * 32,
        "claimed": True,
    }
    registry.write(WEB1, {**registry.read(WEB1), "pending": [intent]})
    third = next(host for host in map(fleet.lab.host, (1, 2, 3)) if host not in (source, other))
    fleet("live_migrate", "--limit", "web1", berth_target_host=third, **LARGER)
    assert entry(registry, fleet.lab) == (third, [], cores) and records(fleet.lab) == [(third, "web1", "OWN")]


def test_a_drained_host_is_empty_and_gets_its_guest_back(fleet, registry):
    home, _pending, cores = entry(registry, fleet.lab)
    fleet("drain", berth_kvm_host=home, **LARGER)
    away, pending, _cores = entry(registry, fleet.lab)
    assert away != home and pending == []
    fleet("create", berth_name="web2", **vm())
    assert homes(fleet.lab)["web2"] != home
    fleet("delete", berth_name="web2", **vm())
    fleet("return", berth_kvm_host=home, **LARGER)
    assert entry(registry, fleet.lab) == (home, [], cores) and records(fleet.lab) == [(home, "web1", "OWN")]
    assert "differs" not in fleet("audit").output


def test_without_the_registry_no_move_begins(fleet, registry):
    before = records(fleet.lab)
    registry.members.kill()
    try:
        refused = fleet("cold_migrate", "--limit", "web1", check=False, **LARGER)
        assert refused.rc and "RegistryUnknown" in refused.output and records(fleet.lab) == before
    finally:
        registry.members.start()
        registry.members.wait(registry.engine)
