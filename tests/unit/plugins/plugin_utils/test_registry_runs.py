# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks about the registry need one, and say what they did in words for people."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ansible_collections.berth.kvm.plugins.action import audit_registry, refresh_registry, use_registry
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry.audit import Audited
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry.enrol import Ended, Refreshed
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry.owners import Difference
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.plugin_utils import reading, registry_access, registry_runs


@pytest.mark.follows("name_registry")
@pytest.mark.parametrize("given", [None, "", "embedded"])
def test_without_a_registry_they_say_to_name_one(monkeypatch, tmp_path, given):
    monkeypatch.setattr(reading, "begin", lambda *_given: None)
    monkeypatch.setattr(registry_runs, "instances_by_uuid", lambda *_given: {})
    monkeypatch.setattr(registry_access.trust, "directory_of", lambda *_given: str(tmp_path))
    values = {} if given is None else {"berth_registry": given}
    action = SimpleNamespace(own_variables=lambda _vars, _names: values, _task=SimpleNamespace(check_mode=False))
    with pytest.raises(InvalidInput, match="berth_registry") as error:
        registry_runs.run_of(action, {}, ["kvm1"])
    assert "Give berth_registry" in error.value.hint
    values["berth_registry"] = "etcd://kvm1"
    registry_access.authority.Authority(str(tmp_path), registry_access.AUTHORITY)
    run, engine = registry_runs.run_of(action, {}, ["kvm1"])
    assert run.hosts == ["kvm1"] and engine


@pytest.mark.parametrize(
    "changed, leave, dry, said",
    [
        (True, False, False, "3 hosts, with 2 instances, belong to the registry now."),
        (False, False, False, "3 hosts, with 2 instances, belong to the registry."),
        (True, False, True, "3 hosts, with 2 instances, would belong to the registry."),
        (True, True, True, "3 hosts, with 2 instances, would be without a registry."),
    ],
)
def test_a_change_says_how_many_hosts_and_instances_it_is_about(changed, leave, dry, said):
    assert use_registry.told(Ended(changed, 3, 2, []), leave, dry) == said


def test_an_audit_says_of_each_difference_what_became_of_it():
    differences = [Difference("web1", "kvm2 has it"), Difference("web2", "kvm1 and kvm2 own it", mends=False)]
    found = Audited(True, differences, ["k"], ["busy"], True)
    assert audit_registry.lines(found, dry=False) == [
        "web1: kvm2 has it. Mended",
        "web2: kvm1 and kvm2 own it. Left to you",
        "1 keys were changed by other runs meanwhile, and left to those.",
        "The registry is open now.",
    ]
    assert audit_registry.lines(found, dry=True)[0] == "web1: kvm2 has it. Would be mended"
    assert audit_registry.lines(Audited(False, [], [], [], False), dry=False) == [
        "The registry says what the hosts say."
    ]


def test_a_refresh_says_which_hosts_were_not_read():
    done = Refreshed(["kvm1"], ["kvm2"], {"kvm3": "UNREACHABLE"})
    assert refresh_registry.lines(done, dry=False) == [
        "1 hosts were read into the registry.",
        "1 hosts are there already as another run has read them later.",
        "kvm3 was not read: UNREACHABLE",
    ]
