# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays of anybody's own use the modules by the names of instances and volumes: nobody knows a uuid."""

from __future__ import annotations

import json

import fake_fleet
import good
import pytest
import yaml

from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils.named_instances import (
    of_instance,
    of_instances,
    of_volume,
    of_volumes,
)

HERE, BLUE = instance_uuid("default", "at-rest-h1"), instance_uuid("blue", "web1")
DB, BLUE_DB = volume_uuid("default", "db-h1"), volume_uuid("blue", "db")
COPY = {"uuid": HERE, "paths": [], "nics": [], "gives_up": []}
REPLIES = {
    "instance_info": {"changed": False, "foreign": [], "instances": [good.shown(good.record("at-rest-h1"))]},
    "instance_copy": {"changed": True, "instance_copy": COPY},
    "volume": {"changed": True, "uuid": DB},
    "volume_info": good.volume_info("h1")[1],
}


def played(folder, *tasks):
    play = {"hosts": "h1", "gather_facts": False, "tasks": list(tasks)}
    (folder / "site.yml").write_text(yaml.safe_dump([play]))
    return fake_fleet.play(folder, ["site.yml"], replies=lambda host: {**fake_fleet.replies(host), **REPLIES})


def test_a_play_of_ones_own_reads_an_instance_by_its_name(tmp_path):
    done = played(
        tmp_path,
        {"berth.kvm.instance_info": {"names": ["at-rest-h1"]}, "register": "found"},
        {"ansible.builtin.debug": {"msg": "it is {{ found.instances[0].state }}"}},
    )
    assert done["rc"] == 0 and "it is running" in done["said"], done["said"][-2000:]
    assert HERE in json.dumps(done["asked"]["h1"])


def test_a_play_of_ones_own_sets_a_copy_aside_and_removes_a_volume_by_their_names(tmp_path):
    done = played(
        tmp_path,
        {"berth.kvm.instance_copy": {"name": "at-rest-h1", "state": "set_aside"}, "register": "copy"},
        {"berth.kvm.volume": {"name": "db-h1"}},
        {"berth.kvm.volume_info": {"names": ["db-h1", "old-h1"]}, "register": "found"},
        {"ansible.builtin.debug": {"msg": "{{ found.volumes[0].name }} {{ found.deleted[0].name }}"}},
    )
    assert done["rc"] == 0 and "db-h1 old-h1" in done["said"], done["said"][-2000:]
    asked = [json.loads(line) for line in done["asked"]["h1"]]
    given = [each[-1] if isinstance(each, list) else each for each in asked]
    assert HERE in json.dumps(given[0]) and DB in json.dumps(given[1]) and DB in json.dumps(given[2])


def test_a_name_that_is_none_is_refused_before_the_host_is_asked(tmp_path):
    done = played(tmp_path, {"berth.kvm.instance": {"name": "Web_1", "state": "stopped"}})
    assert done["rc"] == 2 and "'Web_1' is not valid (1 to 63 of a-z" in done["said"], done["said"][-2000:]
    assert not done["asked"]["h1"]


def test_the_uuid_of_a_task_follows_from_project_and_name():
    assert of_instance({"name": "web1", "project_id": "blue", "state": "stopped"})["uuid"] == BLUE
    assert of_instances({"names": ["at-rest-h1"], "uuids": [BLUE]})["uuids"] == [BLUE, HERE]
    assert of_volume({"name": "db", "project_id": "blue"})["uuid"] == BLUE_DB
    assert of_volumes({"names": "db", "project_id": "blue"})["uuids"] == [BLUE_DB]


def test_a_volume_to_claim_names_itself_and_its_instance():
    told = of_volume({"state": "claimed", "project_id": "blue", "volume": {"name": "db", "instance": "web1"}})
    assert told["uuid"] == BLUE_DB and told["volume"] == {"name": "db", "instance": BLUE}
    given = {"uuid": DB, "volume": {"name": "db", "instance": HERE}}
    assert of_volume(given) == given


def test_a_volume_of_two_names_is_refused():
    with pytest.raises(InvalidInput, match="'db' is not valid .volume.name, which is logs"):
        of_volume({"name": "db", "state": "claimed", "volume": {"name": "logs", "instance": "web1"}})


@pytest.mark.parametrize(
    "args", [{"uuid": BLUE, "name": "web1"}, {"name": "web1", "state": "adopted"}, {"state": "started"}]
)
def test_a_uuid_that_is_given_stays_and_a_name_to_give_makes_none(args):
    assert of_instance(args) == args


@pytest.mark.parametrize("args", [{"name": "web1", "project_id": "../x"}, {"name": ""}])
def test_no_uuid_is_made_of_a_name_or_project_that_is_none(args):
    with pytest.raises(InvalidInput):
        of_instance(args)
