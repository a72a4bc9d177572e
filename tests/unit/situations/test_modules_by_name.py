# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays of anybody's own use the modules by the names of instances: nobody knows a uuid."""

from __future__ import annotations

import json

import fake_fleet
import good
import pytest
import yaml

from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils.named_instances import with_uuid, with_uuids

HERE, BLUE = instance_uuid("default", "at-rest-h1"), instance_uuid("blue", "web1")


def played(folder, *tasks):
    play = {"hosts": "h1", "gather_facts": False, "tasks": list(tasks)}
    (folder / "site.yml").write_text(yaml.safe_dump([play]))
    replies = {"instance_info": {"changed": False, "foreign": [], "instances": [good.shown(good.record("at-rest-h1"))]}}
    return fake_fleet.play(folder, ["site.yml"], replies=lambda host: {**fake_fleet.replies(host), **replies})


def test_a_play_of_ones_own_reads_an_instance_by_its_name(tmp_path):
    done = played(
        tmp_path,
        {"berth.kvm.instance_info": {"names": ["at-rest-h1"]}, "register": "found"},
        {"ansible.builtin.debug": {"msg": "it is {{ found.instances[0].state }}"}},
    )
    assert done["rc"] == 0 and "it is running" in done["said"], done["said"][-2000:]
    assert HERE in json.dumps(done["asked"]["h1"])


def test_a_name_that_is_none_is_refused_before_the_host_is_asked(tmp_path):
    done = played(tmp_path, {"berth.kvm.instance": {"name": "Web_1", "state": "stopped"}})
    assert done["rc"] == 2 and "'Web_1' is not valid (1 to 63 of a-z" in done["said"], done["said"][-2000:]
    assert not done["asked"]["h1"]


def test_the_uuid_of_a_task_follows_from_project_and_name():
    assert with_uuid({"name": "web1", "project_id": "blue", "state": "stopped"})["uuid"] == BLUE
    assert with_uuids({"names": ["at-rest-h1"], "uuids": [BLUE]})["uuids"] == [BLUE, HERE]


@pytest.mark.parametrize(
    "args", [{"uuid": BLUE, "name": "web1"}, {"name": "web1", "state": "adopted"}, {"state": "started"}]
)
def test_a_uuid_that_is_given_stays_and_a_name_to_give_makes_none(args):
    assert with_uuid(args) == args


@pytest.mark.parametrize("args", [{"name": "web1", "project_id": "../x"}, {"name": ""}])
def test_no_uuid_is_made_of_a_name_or_project_that_is_none(args):
    with pytest.raises(InvalidInput):
        with_uuid(args)
