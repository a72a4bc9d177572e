# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a playbook advises, done as it says: the next run does what was meant."""

from __future__ import annotations

import fake_fleet
import pytest
import yaml

from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints


def played(folder, *command, **values):
    done = fake_fleet.play(folder, [*command, "--check"], change=lambda tree: tree["all"]["vars"].update(values))
    return " ".join(done["said"].split())


@pytest.mark.follows("move_existing")
def test_the_target_of_a_create_is_where_the_migrate_that_it_advises_moves_what_exists(tmp_path):
    target = ["--limit", "at-rest-h1", "-e", "berth_target_host=h3"]
    hint = fleet_hints.move_existing("at-rest-h1", "h3")
    assert hint in played(tmp_path / "create", "create", *target) and "migrate %s" % " ".join(target) in hint
    assert "at-rest-h1: migrate, h1 -> h3" in played(tmp_path / "migrate", "migrate", *target)


@pytest.mark.follows("check_cloud_config")
@pytest.mark.parametrize("wrong", ["packages: [nginx\n", "packages:\n - nginx\n  update: true\n", "- nginx\n"])
def test_a_cloud_config_is_no_longer_told_once_it_is_a_mapping(tmp_path, wrong):
    create = ["create", "--limit", "new-1"]
    before = played(tmp_path / "before", *create, berth_user_data="#cloud-config\n" + wrong)
    right = "#cloud-config\npackages: [nginx]\n"
    assert fleet_hints.check_cloud_config() in before
    assert "pass over" not in played(tmp_path / "after", *create, berth_user_data=right)


@pytest.mark.follows("resize_instead")
def test_the_flavor_of_a_move_is_given_by_the_resize_that_it_advises(tmp_path):
    given = ["--limit", "at-rest-h2", "-e", "berth_flavor=big"]
    moved = played(tmp_path / "move", "cold_migrate", *given)
    assert "berth.kvm.cold_migrate does not read berth_flavor. " + fleet_hints.resize_instead() in moved
    resized = played(tmp_path / "resize", "resize", *given)
    assert "at-rest-h2 would be resized" in resized and "does not read" not in resized


@pytest.mark.follows("name_target_instead")
def test_a_move_that_is_not_to_ignore_hosts_goes_to_the_host_that_is_named_in_place_of_it(tmp_path):
    move = ["cold_migrate", "--limit", "at-rest-h1"]
    hint = fleet_hints.name_target_instead()
    assert (
        hint in played(tmp_path / "ignored", *move, "-e", "berth_ignore_hosts=h2") and "berth_target_host=HOST" in hint
    )
    assert "at-rest-h1: cold_migrate, h1 -> h3" in played(tmp_path / "named", *move, "-e", "berth_target_host=h3")


@pytest.mark.follows("run_on_kvm_host")
def test_a_task_for_an_instance_is_done_where_it_is_delegated_to_its_host(tmp_path):
    task = {"berth.kvm.instance": {"name": "at-rest-h1", "state": "stopped"}}

    def run(folder, **more):
        folder.mkdir()
        play = {"hosts": "at-rest-h1", "gather_facts": False, "tasks": [{**task, **more}]}
        (folder / "site.yml").write_text(yaml.safe_dump([play]))
        return fake_fleet.play(folder, ["site.yml"])

    refused, done = run(tmp_path / "refused"), run(tmp_path / "done", delegate_to="h1")
    assert (
        refused["rc"] == 2 and fleet_hints.run_on_kvm_host() in refused["said"] and not any(refused["asked"].values())
    )
    assert done["rc"] == 0 and done["asked"]["h1"], done["said"][-2000:]
