# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of an instance that is not as the inventory says, followed word for word on a host."""

from __future__ import annotations

import pytest
from instance_case import Case

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import network, update
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import facts
from ansible_collections.berth.kvm.plugins.module_utils.conductor import drift
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import read_fleet
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, operation_hints

NIC = {"network": "lan", "type": "bridge", "source": "br0", "mac": "02:00:00:00:00:01", "address": None}
OPEN = {"groups": [], "rules": None, "allowed": []}
WEB = {"groups": ["web"], "rules": [], "allowed": []}


@pytest.fixture
def web(prepared, wanted, monkeypatch):
    monkeypatch.setattr(network, "check", lambda *_: None)
    case = Case(prepared, wanted("web1"))
    case.spec["networks"] = [{**NIC, "security": OPEN}]
    case.make()
    return case


def told(case):
    document = {"uuid": "id-kvm1", "instances": [facts._own(case.record, {})]}
    place = read_fleet({"kvm1": {"document": document}}, dict).places[case.uuid][0]
    return drift.differences("web1", place, case.spec)


@pytest.mark.follows("create_to_filter")
def test_other_security_groups_are_followed_by_create(web):
    assert told(web) == []
    web.spec = {**web.spec, "networks": [{**NIC, "security": WEB}]}
    (said,) = told(web)
    assert said.endswith(fleet_hints.create_to_filter("web1"))
    web.instance().filtered(web.spec)
    assert told(web) == []


@pytest.mark.follows("make_anew_to_follow")
def test_what_an_instance_keeps_is_other_when_it_was_made_anew(web):
    web.spec = {**web.spec, "image": {**web.spec["image"], "name": "other"}}
    (said,) = told(web)
    assert said == "inventory says other image. " + operation_hints.rebuild_to_follow("web1")
    web.instance().absent()
    web.make()
    assert told(web) == []


@pytest.mark.follows("update_to_follow")
def test_other_networks_keys_and_limits_are_followed_by_an_update(web, monkeypatch):
    document = {"uuid": web.host.uuid, "vcpus": 4, "memory_mb": 4096, "local_gb": 10, "local_gb_used": 1, "host": "kvm1",
                "instances": [], "num_instances": 0, "pool": "berth", "pools": {"berth": {"type": "dir"}}}  # fmt: skip
    monkeypatch.setattr(facts, "collect", lambda *_args, **_kwargs: document)
    limited = {**web.spec["flavor"], "extra_specs": {"quota:cpu_shares": "200"}}
    nic = {**NIC, "source": "br1", "security": OPEN}
    web.spec = {**web.spec, "networks": [nic], "ssh_keys_digest": "others", "flavor": limited}
    said = told(web)
    assert len(said) == 2 and all(each.endswith(". " + operation_hints.update_to_follow("web1")) for each in said)
    update.update(
        web.instance(),
        {"spec": web.spec, "seed": web.seed, "disks": [], "volumes": None, "discards": [], "only_claim": False},
    )
    assert told(web) == []
