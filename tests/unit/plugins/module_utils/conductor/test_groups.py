# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is in a server group, and on which hosts its members are."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import groups
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints


def spec(policy="affinity", **group):
    return {"uuid": "new", "project_id": "p", "group": {"name": "web", "uuid": "web-uuid", "policy": policy, **group}}


def record(uuid="other", project="p", group="web", role="OWN"):
    return {"uuid": uuid, "project_id": project, "group": group, "role": role}


@pytest.mark.parametrize(
    "held, is_member",
    [
        (record(), True),
        (record(group="web-uuid"), True),
        (record(role="IN"), True),
        (record(role="CLAIM"), True),
        (record(project="another"), False),
        (record(group="db"), False),
        (record(group=None), False),
        (record(uuid="new"), False),
    ],
    ids=["by name", "by uuid", "on its way", "claimed", "of another project", "of another group", "of none", "itself"],
)
def test_a_member_is_another_instance_of_the_group_in_the_same_project_in_whatever_role(held, is_member):
    assert groups.others(spec(), [held]) == [held] * is_member


def test_without_a_group_there_are_no_members():
    assert groups.others({**spec(), "group": None}, [record(group=None)]) == []


@pytest.mark.follows("one_host_for_group")
def test_an_affinity_group_is_violated_by_members_on_other_hosts_and_by_no_others():
    held = {"h1": [record("a")], "h2": [record("b")], "h3": [record("c", group="db")]}
    assert groups.elsewhere(spec(), "h1", held) == ["h2"]
    violated = groups.violation(spec(), ["h2"])
    assert "h2" in violated.message and violated.hint == fleet_hints.one_host_for_group("web")
    soft = {**spec()["group"], "policy": "soft-affinity"}
    assert groups.elsewhere({**spec(), "group": soft}, "h1", held) == []
    assert groups.violation(spec(), groups.elsewhere(spec(), "h1", {"h1": [record("a")]})) is None


def test_only_affinity_is_decided_over_all_hosts():
    held = {"h1": [], "h2": [record("b")]}
    assert (
        groups.elsewhere(spec("anti-affinity"), "h1", held) == groups.elsewhere(spec("soft-affinity"), "h1", held) == []
    )
