# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which host a volume is removed on, and what update_disks asks of the host of an instance with volumes."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from controller import Controller
from held_case import WEB, held

from ansible_collections.berth.kvm.plugins.action import delete_volume
from ansible_collections.berth.kvm.plugins.module_utils.model import hints, input_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid

HOST = json.loads((Path(__file__).parent / "host.json").read_text())
DB = volume_uuid("default", "db")


def volume(instance=None):
    return {"uuid": DB, "name": "db", "project_id": "default", "size_gb": 2, "pool": "berth",
            "role": "OWN", "instance": instance and {"uuid": WEB, "name": instance}, "phase": "active"}  # fmt: skip


def controller(run=None, instance=None, **hosts):
    """hosts: name -> (instances, volumes), or None for one that is silent."""
    facts = {}
    for name, has in hosts.items():
        if has is not None:
            own = {"uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)), "instances": has[0], "num_instances": len(has[0])}
            facts[name] = {"berth_host": {**HOST, **own, "volumes": has[1]}}
    variables = {"web1": {"berth_flavor": "small", **(instance or {})}, "all": run or {}}
    return Controller({"kvm_hosts": list(hosts), "vms": ["web1"]}, variables, facts)


@pytest.fixture
def asked(monkeypatch):
    """What the hosts were asked, and what they answer: {"changed": True} unless a test says otherwise."""
    told = {"questions": [], "reply": {"changed": True}}

    def ask(_action, _task_vars, hosts, module, arguments):
        told["questions"].append((list(hosts), module, arguments))
        return {host: told["reply"] for host in hosts}

    monkeypatch.setattr(delete_volume, "ask", ask)
    return told


def test_the_volume_is_removed_on_the_host_that_has_it(asked):
    result = controller(h1=([], []), h2=([], [volume()])).run("delete_volume", {"name": "db"})
    assert (result["changed"], result["host"]) == (True, "h2")
    assert asked["questions"] == [(["h2"], "volume", {"uuid": DB})]


@pytest.mark.parametrize("check_mode, verb", [(True, "would be"), (False, "is")], ids=["--check", "a run"])
def test_the_volume_whose_data_are_given_up_is_named_with_its_size_before_and_after(asked, capsys, check_mode, verb):
    result = controller(h1=([], []), h2=([], [volume()])).run("delete_volume", {"name": "db"}, check_mode=check_mode)
    assert "volume db 2 GiB on h2 %s removed" % verb in capsys.readouterr().out
    assert result["diff"] == {"before": "volume db 2 GiB on h2\n", "after": ""}


def test_nothing_is_asked_where_an_instance_has_it_or_nobody_knows(asked):
    for hosts, code in (
        ({"h1": ([held()], [volume("web1")])}, "VolumeInUse"),
        ({"h1": ([], []), "h2": None}, "VolumeUnknown"),
        ({"h1": ([], [])}, "VolumeNotFound"),
    ):
        result = controller(**hosts).run("delete_volume", {"name": "db"})
        assert result["failed"] and result["error_code"] == code, result
    gone = controller({"berth_volumes_defined": {"db": {"size_gb": 2}}}, h1=([], [])).run(
        "delete_volume", {"name": "db"}
    )
    assert not gone.get("failed") and not gone["changed"] and asked["questions"] == []


@pytest.mark.follows("give_volume")
def test_a_run_that_names_no_volume_says_how(asked):
    result = controller(h1=([], [volume()])).run("delete_volume", {})
    assert result["failed"] and input_hints.give_volume() in result["msg"]
    assert controller(h1=([], [volume()])).run("delete_volume", {"name": "db"})["changed"]


def test_what_the_host_refuses_is_told_and_a_host_that_fell_silent_too(asked):
    error = {"code": "VolumeInUse", "message": "volume db is attached to web1", "hint": "Take it"}
    asked["reply"] = {"failed": True, "error": error}
    result = controller(h1=([], [volume()])).run("delete_volume", {"name": "db"})
    assert result["failed"] and result["msg"] == "h1: volume db is attached to web1. Take it"
    asked["reply"] = {"unreachable": True, "msg": "gone"}
    result = controller(h1=([], [volume()])).run("delete_volume", {"name": "db"})
    assert result["failed"] and hints.run_again() in result["msg"]


def located(instance, **hosts):
    args = {"instances": ["web1"], "method": "update_disks", "selected": True}
    return controller(instance=instance, **hosts).run("locate_instances", args)["ansible_facts"]["berth_located"]


def test_an_update_asks_for_the_volumes_of_the_inventory_and_for_none_where_it_says_nothing():
    defined = {"berth_volumes_defined": {"db": {"size_gb": 4}}}
    found = located({**defined, "berth_volumes": ["db"]}, h1=([held()], [volume()]))["instances"]["web1"]
    assert found["volumes"] == [{"name": "db", "size_gb": 4, "delete_on_termination": False}]
    assert "volumes" not in located(defined, h1=([held()], [volume()]))["instances"]["web1"]
    assert located({**defined, "berth_volumes": {}}, h1=([held()], [volume()]))["instances"]["web1"]["volumes"] == []


def test_an_update_is_refused_where_the_volume_is_elsewhere_or_unknown_by_name():
    wanted = {"berth_volumes_defined": {"db": {"size_gb": 4}}, "berth_volumes": ["db"]}
    found = located(wanted, h1=([held()], []), h2=([], [volume()]))
    assert "VolumeElsewhere" in found["errors"]["web1"]
    assert (found["found"], found["instances"]) == ([], {}), "nothing is asked of its host, nor counted for its project"
    assert (
        "VolumeNotDefined" in located({**wanted, "berth_volumes": ["bd"]}, h1=([held()], [volume()]))["errors"]["web1"]
    )
