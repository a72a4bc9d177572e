# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""With a fact cache Ansible keeps what a run planned and found. No later run acts on it."""

from __future__ import annotations

import json
import sys

import pytest
import yaml
from fake_fleet import play

SECRET = "#cloud-config\npassword: s3cr3t\n"


def runs(folder, *playbooks):
    """What each run did and said; all have one fact cache."""
    cache = folder / "cache"
    environment = {"ANSIBLE_CACHE_PLUGIN": "jsonfile", "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(cache)}

    def with_secret(tree):
        # Ansible asks the instances for facts where a run begins in the middle
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        tree["all"]["children"]["instances"]["vars"].update(berth_user_data=SECRET, **local)

    for number, playbook in enumerate(playbooks):
        own = folder / str(number)
        own.mkdir()
        if isinstance(playbook, list):
            (own / "site.yml").write_text(yaml.safe_dump(playbook))
            playbook = ("site.yml",)
        yield play(own, playbook, change=with_secret, more_environment=environment), cache


def role(name, host):
    return [{"hosts": host, "gather_facts": False, "roles": ["berth.kvm." + name]}]


@pytest.mark.parametrize("name, host", [("create", "new-1"), ("delete", "at-rest-h1"), ("resize", "at-rest-h1")])
def test_a_role_that_stands_alone_looks_anew_and_follows_nothing_of_an_earlier_run(tmp_path, name, host):
    """The role delete deleted from the hosts that had a part of the instance days ago."""
    (before, cache), (after, _same) = runs(tmp_path, (name, "--limit", host), role(name, host))
    assert before["rc"] == after["rc"] == 0 and "berth_" in (cache / "s1_localhost").read_text()
    assert any(json.loads(line)["module"] == "host_facts" for line in after["asked"]["h1"])


def test_a_playbook_that_begins_in_the_middle_does_not_act_on_what_an_earlier_run_found(tmp_path):
    stop, task = ("stop", "--limit", "at-rest-h1"), "{{ __berth_does | default('Act on the instances') }}"
    (first, _cache), (after, _same) = runs(tmp_path, stop, (*stop, "--start-at-task", task))
    assert any(first["asked"].values()) and not any(after["asked"].values())


def test_a_fact_cache_keeps_no_secret(tmp_path):
    ((done, cache),) = runs(tmp_path, ("create", "--limit", "new-1"))
    kept = (cache / "s1_localhost").read_text()
    assert done["rc"] == 0 and json.loads(kept) and "s3cr3t" not in kept
