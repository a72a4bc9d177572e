# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host is closed for maintenance, and what it has is found; it is opened, and what left it by the drain is found."""

from __future__ import annotations

import pytest
from controller import Controller
from held_case import held
from leaving_case import SILENT, UUIDS, Hosts, up

from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, hints, input_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils import delegates, selection

WEB, DB = instance_uuid("default", "web1"), instance_uuid("default", "db")
DRAINED = {"changed": True, "drained": {"reason": "new memory", "by": "ada@ctl", "at": "2026-11-22T11:15:06Z"}}


@pytest.fixture
def hosts(monkeypatch):
    made = Hosts()

    def run_on(names, module, arguments, *_args):
        asked = made.asked + [(host, module.rpartition(".")[2], arguments[host]) for host in names]
        made.asked = asked
        return {host: DRAINED if module.endswith("maintenance") else {"changed": False} for host in names}

    monkeypatch.setattr(delegates, "run_on", run_on)
    return made


def named(name, uuid, role="OWN", **more):
    return held(role=role, uuid=uuid, name=name, **more)


def maintain(answers, state="drained", check_mode=False, limit=None, of=None, where=None, said=None, **args):
    of = of or {"web1": {"berth_flavor": "small"}}
    it = Controller({"kvm_hosts": ["kvm1", "kvm2", "kvm3"], "vms": list(of)}, of)
    it.register("localhost", __berth_facts={"answers": answers})
    values = {**it.task_vars(), **({"ansible_limit": limit} if limit else {})}
    values.update({**({"berth_where_hosts": where} if where else {}), **(said or {})})
    return it.run("maintain_host", {"name": "kvm3", "state": state, **args}, values, check_mode=check_mode)


def answers(*there, elsewhere=(), **more):
    return {"kvm1": up("kvm1"), "kvm2": up("kvm2", *elsewhere), "kvm3": up("kvm3", *there), **more}


def test_what_a_host_has_leaves_it_also_what_no_inventory_has(hosts, capsys):
    there = answers(named("web1", WEB), named("db", DB, power_state="shutdown"))
    done = maintain(there, reason="new memory")
    assert done["changed"] and done["names"] == ["db", "web1"] and done["add"] == [{"name": "db", "project": "default"}]
    assert done["are_off"] == ["db"]
    assert hosts.asked[0] == (
        "kvm3",
        "host_maintenance",
        {**hosts.asked[0][2], "state": "drained", "reason": "new memory"},
    )
    assert "kvm3 is closed: it takes no instance until berth.kvm.return. What is to leave it: db, web1." in (
        capsys.readouterr().out
    )


def test_all_hosts_remember_why_it_is_closed_so_that_nobody_takes_it_for_lost_while_it_is_off(hosts):
    maintain(answers())
    told = {host: given["told"]["members"][UUIDS["kvm3"]] for host, module, given in hosts.asked if module == "rescan"}
    assert set(told) == {"kvm1", "kvm2", "kvm3"}
    assert told["kvm1"] == {"name": "kvm3", "changes": 1, "closed": "new memory"}


def test_what_waits_for_a_confirm_stays_and_is_told(hosts, capsys):
    done = maintain(answers(named("web1", WEB, phase="resized")))
    assert done["names"] == [] and "InstanceMoving" in done["stay"]["web1"]
    assert "web1 stays where it is: " in capsys.readouterr().out


def test_what_an_earlier_run_began_to_move_leaves_with_this_one_and_is_not_said_to_stay(hosts, capsys):
    begun = named("web1", WEB, phase="resizing", task_state="migrating")
    done = maintain(answers(begun, elsewhere=[named("web1", WEB, "IN", phase="incoming")]))
    assert done["names"] == ["web1"] and not done["stay"]
    assert "What is to leave it: web1." in capsys.readouterr().out


def test_what_has_left_in_a_move_and_that_no_host_has_taken_over_yet_is_moved_on(hosts):
    """As when the run was cut off between both, or the new host could not resume the guest."""
    left = named("web1", WEB, "OUT", phase="keep", task_state="migrating")
    done = maintain(answers(left, elsewhere=[named("web1", WEB, "IN", phase="incoming", task_state="migrating")]))
    assert (done["names"], done["stay"]) == (["web1"], {})


def test_a_guest_that_is_no_instance_keeps_its_host_from_being_empty_while_it_runs(hosts, capsys):
    """Somebody would switch the host off under it."""
    guest = {**named("fw", "1b4e28ba-2fa1-4d8f-9b1d-0242ac120002"), "foreign": True, "managed": False, "role": None}
    done = maintain(answers(named("web1", WEB), guest))
    assert done["names"] == ["web1"] and list(done["stay"]) == ["guest fw"]
    assert hints.list_guests() in done["stay"]["guest fw"]
    assert "guest fw stays where it is: ForeignGuest: " in capsys.readouterr().out
    assert maintain(answers({**guest, "power_state": "shutdown"}))["stay"] == {}


@pytest.mark.parametrize(
    "instance",
    [named("kvm2", instance_uuid("default", "kvm2")), named("other", DB)],
    ids=["a host's name", "not its uuid"],
)
def test_a_name_that_a_host_says_stands_for_nothing_else_in_the_inventory(hosts, instance):
    done = maintain(answers(instance))
    assert done["names"] == [] and len(done["stay"]) == 1


@pytest.mark.follows("move_alone")
def test_two_instances_of_one_name_that_no_inventory_has_are_not_taken_for_one(hosts):
    twin = named("db", instance_uuid("other", "db"), project_id="other")
    done = maintain(answers(named("db", DB), twin))
    assert done["names"] == [] and set(done["stay"]) == {"db of project default", "db of project other"}
    assert fleet_hints.move_alone("db", "other") in done["stay"]["db of project other"]
    assert maintain(answers(named("db", DB), elsewhere=[twin]))["names"] == ["db"]


@pytest.mark.follows("list_it_first")
@pytest.mark.parametrize("adopted, variable", [("db2", "berth_adopted"), (None, "berth_uuid")])
def test_one_that_was_adopted_or_renamed_and_is_in_no_inventory_stays_and_leaves_once_its_uuid_is_there(
    hosts, adopted, variable
):
    there = answers(named(DB, DB, own_name="db2", **({"adopted": adopted} if adopted else {})))
    (said,) = maintain(there)["stay"].values()
    assert said.startswith("InstanceNotFound: db2 was %s" % ("adopted" if adopted else "renamed"))
    assert "db2 with %s: %s to the inventory" % (variable, DB) in said
    assert "berth.kvm.migrate with -e berth_name=db2 -e berth_project=default -e %s=%s. " % (variable, DB) in said
    listed = {"db2": {"berth_flavor": "small", variable: DB}}
    assert maintain(there, of=listed)["names"] == ["db2"]


def test_an_instance_of_no_inventory_is_not_taken_for_one_of_its_name_that_the_inventory_has(hosts):
    twin = named("web1", instance_uuid("other", "web1"), project_id="other")
    done = maintain(answers(named("web1", WEB), twin))
    assert done["names"] == ["web1"] and list(done["stay"]) == ["web1 of project other"]


def test_what_left_by_the_drain_comes_home_and_nothing_else(hosts):
    elsewhere = [named("web1", WEB, home=UUIDS["kvm3"]), named("db", DB)]
    done = maintain(answers(elsewhere=elsewhere), state="open")
    assert done["names"] == ["web1"] and done["add"] == []


@pytest.mark.follows("start_what_fell")
@pytest.mark.parametrize(
    "is_so, told",
    [
        ({"power_state": "shutdown", "vm_state": "active"}, True),
        ({"power_state": "shutdown", "vm_state": "stopped"}, False),
        ({"power_state": "running", "vm_state": "active"}, False),
    ],
)
def test_who_opens_a_host_after_its_boot_is_told_what_ran_there_and_is_off(hosts, capsys, is_so, told):
    maintain(answers(named("web1", WEB, **is_so)), state="open")
    assert (fleet_hints.start_what_fell("web1") in capsys.readouterr().out) is told


@pytest.mark.parametrize(
    "said, told", [("false", "What left it stays where it is: web1."), ("true", "come home to it: web1.")]
)
def test_who_only_opens_a_host_is_not_told_that_anything_comes_home(hosts, capsys, said, told):
    left = answers(elsewhere=[named("web1", WEB, home=UUIDS["kvm3"])])
    maintain(left, state="open", said={"berth_bring_home": said})
    assert "kvm3 is open. " in (shown := capsys.readouterr().out) and told in shown


def test_a_host_that_says_that_it_is_home_of_what_others_have_gets_nothing(hosts):
    done = maintain(
        answers(named("web1", WEB, "OUT", home=UUIDS["kvm3"]), elsewhere=[named("web1", WEB)]), state="open"
    )
    assert done["names"] == []


@pytest.mark.parametrize(
    "given, code",
    [({"name": None}, "InvalidInput"), ({"name": "kvm9"}, "KvmHostNotFound"), ({"limit": "web1"}, "InvalidInput")],
)
def test_a_host_has_to_be_named_and_no_limit_counts(hosts, given, code):
    done = maintain(answers(), **given)
    assert done["failed"] and done["error_code"] == code and hosts.asked == []


@pytest.mark.follows("give_host")
def test_who_names_no_host_is_told_the_variable_of_this_playbook(hosts):
    assert maintain(answers(), name=None)["error"]["hint"] == input_hints.give_host("berth_kvm_host")
    assert not maintain(answers(), name="kvm1").get("failed")


@pytest.mark.parametrize("name", ["berth_instances", "berth_name", "berth_where", "berth_target_host"])
def test_what_would_move_other_instances_than_those_of_the_host_is_refused_before_it_is_closed(
    monkeypatch, hosts, name
):
    """-e would win against the variables of the plays that move what the host has."""
    monkeypatch.setattr(selection, "load_extra_vars", lambda _loader: {name: "web"})
    done = maintain(answers(named("db", DB)))
    assert done.get("error_code") == "InvalidInput" and done["error"]["field"] == name and hosts.asked == []


@pytest.mark.parametrize("reason", ["x" * 201, "two\nlines", "{{ x }}"])
def test_a_reason_that_no_host_could_tell_again_is_refused_before_the_host_is_closed(hosts, reason):
    done = maintain(answers(), reason=reason)
    assert done.get("error_code") == "InvalidInput" and done["error"]["field"] == "berth_drain_reason"
    assert hosts.asked == []


def test_an_instance_that_only_the_inventory_plugin_knows_leaves_too(hosts):
    done = maintain(answers(named("db", DB)), of={"db": {"berth_present_flavor": "small", "berth_project": "default"}})
    assert (done["names"], done["add"], done["stay"]) == (["db"], [], {})


@pytest.mark.parametrize("role, phase", [("OUT", "keep"), ("IN", "incoming")])
def test_a_host_that_keeps_a_part_of_a_move_is_not_called_empty(hosts, role, phase):
    owner = named("web1", WEB, phase="resized", vm_state="resized")
    done = maintain(answers(named("web1", WEB, role, phase=phase), elsewhere=[owner]))
    assert list(done["stay"]) == ["web1"] and "confirm_resize" in done["stay"]["web1"]


def test_a_drain_that_was_interrupted_before_it_confirmed_a_move_confirms_it_when_it_runs_again(hosts):
    owner = named("web1", WEB, phase="resized", vm_state="resized", power_state="shutdown", home=UUIDS["kvm3"])
    done = maintain(answers(named("web1", WEB, "OUT", phase="keep"), elsewhere=[owner]))
    assert (done["names"], done["to_end"], done["stay"]) == ([], ["web1"], {})


@pytest.mark.parametrize("phase", ["resized", "confirming"])
def test_a_drain_that_was_interrupted_before_a_live_move_ended_ends_it_when_it_runs_again(hosts, phase):
    owner = named("web1", WEB, phase=phase, task_state="migrating", home=UUIDS["kvm3"])
    done = maintain(answers(named("web1", WEB, "OUT", phase="keep"), elsewhere=[owner]))
    assert (done["names"], done["to_end"], done["stay"]) == ([], ["web1"], {})


def test_a_host_that_does_not_answer_is_neither_closed_nor_opened(hosts):
    done = maintain({**answers(), "kvm3": SILENT})
    assert done["failed"] and done["error_code"] == "HostUnknown" and hosts.asked == []


def test_check_mode_tells_no_other_host(hosts, capsys):
    maintain(answers(named("web1", WEB)), check_mode=True)
    assert [module for _host, module, _given in hosts.asked] == ["host_maintenance"]
    assert "kvm3 would be closed" in capsys.readouterr().out


def test_a_query_names_the_host_of_a_drain(hosts):
    done = maintain(answers(named("web1", WEB)), name=None, where="num_instances > `0`")
    assert (done["host"], done["names"]) == ("kvm3", ["web1"])


@pytest.mark.parametrize(
    "where, name, state, said",
    [
        ("num_instances == `0`", None, "drained", "it selects kvm1, kvm2"),
        ("num_instances > `7`", None, "drained", "it selects none"),
        ("num_instances > `0`", "kvm3", "drained", "not beside berth_where_hosts"),
        ("num_instances > `0`", None, "open", "the name of a KVM host"),
        (None, None, "drained", "the name of a KVM host"),
    ],
)
def test_a_query_that_does_not_name_one_host_closes_none(hosts, where, name, state, said):
    refused = maintain(answers(named("web1", WEB)), name=name, where=where, state=state)
    assert refused.get("failed") and said in refused["msg"] and not hosts.asked
    assert refused["error"]["hint"] == input_hints.give_host("berth_kvm_host")
