# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table that ends every run: it fits a terminal, says what is true, and shows every error below it."""

from __future__ import annotations

import pytest
from closing_table_case import located

from ansible_collections.berth.kvm.plugins.module_utils.conductor import (
    closing_table,
    outcome_of_create,
    outcome_of_move,
    outcome_of_operation,
    show_instance,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.closing_table import Outcome
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.operate import Done
from ansible_collections.berth.kvm.plugins.module_utils.model import disk_hints, operation_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.line import CHANGED, FAILED, LEFT_OUT, UNCHANGED

HEAD = "INSTANCE  STATE"


def move(**more):
    """web1 was small on kvm1 and is large on kvm3, not confirmed."""
    specs = {"old_spec": {"flavor": {"name": "small"}}, "new_spec": {"flavor": {"name": "large"}}}
    old, new = ({"flavor": {"name": name}} for name in ("small", "large"))
    views = {
        "source": {"role": "OUT", "spec": old, "migration": specs},
        "destination": {"role": "OWN", "spec": new, "migration": specs},
    }
    return {"source": "kvm1", "destination": "kvm3", "sequence": "confirm", "why": None, "views": views, **more}


def moves(act=True, **more):
    return {"moves": {"web1": move(**more)}, "act": ["web1"] if act else [], "errors": {}}


def line(outcome):
    return " ".join(closing_table.closing([outcome], {})[1].split())


@pytest.mark.parametrize("length", [4, 20, 40])
def test_the_table_fits_80_columns(length):
    why = "attempt 2, after ClaimFailed on kvm1 and GroupPolicyViolated on kvm2 and InsufficientResources on kvm3"
    outcome = Outcome("w" * length, "would be made", "kvm-17", "large", "192.0.2.11", why)
    lines = closing_table.closing([outcome, Outcome("db", "unchanged")], {})
    assert max(map(len, lines)) <= 80
    assert why in " ".join(" ".join(lines).split()).replace(" - ", " ")


ADDRESS = "2001:0db8:85a3:0000:0000:8a2e:0370:7334"


@pytest.mark.parametrize(
    "host, flavor, address",
    [
        pytest.param("kvm1.example.org", "m1.large", ADDRESS, id="a-whole-IPv6-address"),
        pytest.param("kvm1.example.org", "m1.large", ADDRESS + " +12", id="and-more-of-them"),
        pytest.param(
            "rack-12-of-the-second-row-kvm-1.example.org",
            "compute.memory-optimised.large",
            ADDRESS,
            id="everything-is-long",
        ),
    ],
)
def test_details_that_are_too_wide_for_80_columns_go_on_below_and_nothing_is_cut(host, flavor, address):
    outcomes = [
        Outcome("web1", "would be rebooted", host, flavor, address, "a reason"),
        Outcome("db", "unchanged", "kvm2"),
    ]
    lines = closing_table.closing(outcomes, {})
    assert max(map(len, lines)) <= 80
    for word in (host, flavor, address, "would be rebooted"):
        assert any(word in line for line in lines), lines
    first, last = (next(at for at, line in enumerate(lines) if line.startswith(name)) for name in ("web1", "db"))
    assert first <= next(at for at, line in enumerate(lines) if address in line) < last


def test_a_long_reason_goes_below_its_line_where_that_takes_fewer_lines():
    assert closing_table.closing([Outcome("web1", "active", "kvm1", why="a few words")], {})[0].startswith(HEAD)
    told = closing_table.closing([Outcome("web1", "active", "kvm1", why="many words " * 40)], {})
    assert told[1].split() == ["web1", "active", "kvm1", "-", "-"] and len(told) <= 10
    assert all(line.startswith("    many") or line.startswith("    words") for line in told[2:])


def test_one_long_name_or_reason_changes_the_form_of_its_own_row_only():
    short = [Outcome("web%d" % at, "active", "kvm1", "small", "192.0.2.1", "a reason") for at in range(3)]
    for row in (Outcome("w" * 63, "active", "kvm1"), Outcome("db", "active", "kvm1", why="many words " * 40)):
        alone, together = closing_table.closing(short, {}), closing_table.closing([short[0], row, *short[1:]], {})
        assert [each for each in together if each.startswith("web")] == alone[1:]
        assert together[0] == alone[0] and max(map(len, together)) <= 80


def test_the_table_uses_the_width_of_the_terminal():
    row = Outcome("w" * 40, "would be rebooted", "kvm1.example.org", "large", "192.0.2.11", "word " * 30)
    lines = closing_table.closing([row, Outcome("db", "active")], {}, width=160)
    assert lines[1].startswith("w" * 40 + "  would be rebooted  kvm1.example.org") and 120 < max(map(len, lines)) <= 160


def test_of_many_silent_hosts_each_has_one_line_of_the_terminal():
    reason = "UNREACHABLE: no answer within 60 s. " + "Bring it back and run again. " * 9
    for width in (80, 120):
        lines = closing_table.closing([], {"kvm%d" % at: reason for at in range(300)}, width=width)[2:]
        assert (
            len(lines) == 300
            and max(map(len, lines)) <= width
            and all("UNREACHABLE: no answer" in line for line in lines)
        )
    assert closing_table.closing([], {"kvm1": reason})[2].endswith("run again. ")


def kinds(lines):
    return [getattr(line, "kind", "") for line in lines]


@pytest.mark.parametrize("state, kind", [("failed", FAILED), ("unchanged", UNCHANGED), ("resized", CHANGED)])
def test_every_line_of_a_row_says_what_became_of_the_instance(state, kind):
    beside = closing_table.closing([Outcome("web1", state, "kvm1", why="a few words " * 5)], {})
    below = closing_table.closing([Outcome("web1", state, "kvm1", why="many words " * 40)], {})
    assert len(beside) > 2 and kinds(beside) == ["", *[kind] * (len(beside) - 1)]
    assert kinds(below) == ["", *[kind] * (len(below) - 1)]


@pytest.mark.parametrize(
    "state, kind", [("active", UNCHANGED), ("absent", UNCHANGED), ("error", FAILED), ("unknown", LEFT_OUT)]
)
def test_a_table_that_only_shows_instances_has_none_that_changed(state, kind):
    assert kinds(closing_table.closing([Outcome("web1", state)], {}, acts=False)) == ["", kind]


def test_errors_and_hosts_that_were_left_out_are_below_the_table_each_on_a_line_of_its_own():
    """A hint has commands in it, which are copied: no line is broken."""
    error = "HostUnknown: kvm2 did not answer. " + "Bring it back and run again. " * 5
    lines = closing_table.closing(
        [Outcome("web1", "failed", error=error)], {"kvm2": "UNREACHABLE: no answer within 60 s"}
    )
    assert lines[0].startswith(HEAD)
    assert lines[2:] == ["", "web1: " + error, "", "host kvm2 left out: UNREACHABLE: no answer within 60 s"]


def test_a_long_reason_of_a_host_that_an_instance_has_told_is_not_told_again():
    long = "LibvirtUnavailable: %s" % ("start libvirtd " * 9)
    error = "InstanceUnknown: w1 was last seen on kvm1 (which is there, but: %s); it may still run there" % long
    below = closing_table.closing([Outcome("w1", "failed", error=error)], {"kvm1": long, "kvm2": long + "!"})[2:]
    assert below[-2:] == ["host kvm1 left out: LibvirtUnavailable: see above", "host kvm2 left out: %s!" % long]
    assert closing_table.closing([], {"kvm1": long})[-1] == "host kvm1 left out: %s" % long


def test_an_instance_with_several_addresses_shows_the_first():
    nics = [{"network": "lan", "address": "192.0.2.11/24"}, "wan", {"address": "198.51.100.7"}]
    assert closing_table.address_of(nics) == "192.0.2.11 +1"
    assert closing_table.address_of(["lan"]) == closing_table.address_of(None) == ""


@pytest.mark.parametrize(
    "operation, done, check, said",
    [
        ("start", Done(changed=True), False, "web1 started kvm1 small -"),
        ("start", Done(changed=True), True, "web1 would be started kvm1 small -"),
        ("start", Done(), False, "web1 unchanged kvm1 small - runs already"),
        ("stop", Done(), False, "web1 unchanged kvm1 small - is off already"),
        ("delete", Done(changed=True), False, "web1 deleted kvm1 small -"),
        ("start", Done(errors=[{"code": "X", "message": "why"}]), False, "web1 failed kvm1 small - X"),
        (
            "start",
            Done(errors=[{"code": "HostUnknown", "message": "it is silent"}]),
            False,
            "web1 failed kvm1 small - HostUnknown",
        ),
    ],
)
def test_power_and_delete_say_what_was_done(operation, done, check, said):
    assert line(outcome_of_operation.outcome(operation, "web1", located(), done, check)) == said


@pytest.mark.parametrize(
    "state, said",
    [
        ("running", "runs, or is meant to be off"),
        ("shutdown", "off, though nobody stopped it with berth.kvm.stop; run berth.kvm.start"),
    ],
)
def test_a_recovery_that_leaves_a_guest_off_does_not_say_that_it_runs(state, said):
    done = Done(instance={"state": state})
    assert outcome_of_operation.outcome("recover", "web1", located(), done, False).why == said


@pytest.mark.parametrize("check", [True, False], ids=["--check", "a run"])
def test_a_delete_names_the_disks_whose_data_it_gives_up_on_each_host_once(check):
    done = Done(changed=True, gives_up=["root disk 1 GiB", "data disk db 3 GiB", "root disk 1 GiB"])
    outcome = outcome_of_operation.outcome("delete", "web1", located(), done, check)
    assert (outcome.state, outcome.why) == (
        "would be deleted" if check else "deleted",
        "gives up root disk 1 GiB, data disk db 3 GiB",
    )


def test_the_removal_of_a_copy_that_was_set_aside_names_its_disks():
    done = Done(changed=True, gives_up=["root disk 1 GiB"])
    assert (
        outcome_of_operation.outcome("remove_set_aside", "web1", located(), done, False).why
        == "gives up root disk 1 GiB"
    )


def test_a_delete_of_what_is_on_no_host_is_no_failure():
    outcome = outcome_of_operation.outcome("delete", "web1", located(shown={}), Done(), False)
    assert (outcome.state, outcome.why, outcome.error) == ("unchanged", "is on no host", "")


def test_a_delete_that_failed_on_one_of_two_hosts_says_what_that_host_said():
    done = Done(changed=True, errors=[{"code": "DiskChainChanged", "message": "a layer"}])
    assert outcome_of_operation.outcome("delete", "web1", located(), done, False).error == "DiskChainChanged: a layer"


@pytest.mark.parametrize(
    "operation, said",
    [
        ("confirm", "web1 confirmed kvm3 large - was kvm1 small"),
        ("revert", "web1 reverted kvm1 small - was kvm3 large"),
    ],
)
def test_a_confirm_and_a_revert_say_where_the_instance_is_now_and_where_it_was(operation, said):
    outcome = outcome_of_move.outcome(operation, "web1", moves(), {"move": {}}, False)
    assert line(outcome) == said


@pytest.mark.parametrize("operation", ["confirm", "confirm_due"])
def test_a_confirm_that_failed_names_the_host_that_has_the_instance(operation):
    done = {"failure": "GuestCrashed: the guest has crashed"}
    said = outcome_of_move.outcome(operation, "web1", moves(), done, False)
    assert (said.state, said.host, said.flavor) == ("failed", "kvm3", "large")


def test_a_resize_says_that_it_waits():
    done = {"move": {"phase": "resized", "confirm_in": None}}
    said = outcome_of_move.outcome("resize", "web1", moves(), done, False)
    assert (said.state, said.host, said.flavor) == ("resized", "kvm3", "large")
    assert said.why == "was kvm1 small; waits for confirm_resize or revert_resize"


@pytest.mark.parametrize("executing, told", [(True, True), (False, False)])
def test_a_resize_tells_how_long_the_guest_was_away_where_it_runs_again(executing, told):
    last = {"phase": "resized", "confirm_in": None, "executing": executing}
    done = {"move": last, "away": 74.2}
    why = outcome_of_move.outcome("resize", "web1", moves(), done, False).why
    assert ("guest was away for 1m15s" in why) == told


def test_a_move_that_failed_shows_where_the_instance_was():
    said = outcome_of_move.outcome("resize", "web1", moves(), {"failure": "MigrationError: cut"}, False)
    assert (said.state, said.host, said.error) == ("failed", "kvm1", "MigrationError: cut")


def test_a_move_that_had_nothing_to_do_says_why():
    said = outcome_of_move.outcome("resize", "web1", moves(act=False, why="has flavor large already"), {}, False)
    assert (said.state, said.host, said.flavor, said.why) == ("unchanged", "kvm3", "large", "has flavor large already")


def test_a_move_that_was_refused_keeps_the_host_and_the_flavor_that_are_known():
    shown = {"web1": {"host": "kvm1", "flavor": "small", "networks": [{"address": "192.0.2.7"}]}}
    known = {"moves": {}, "act": [], "errors": {"web1": "InstanceIsLocked: by ann"}, "shown": shown}
    assert (
        line(outcome_of_move.outcome("resize", "web1", known, {}, False))
        == "web1 failed kvm1 small 192.0.2.7 InstanceIsLocked"
    )


def test_a_move_that_was_refused_is_failed():
    refused = {"moves": {}, "act": [], "errors": {"web1": "InstanceIsLocked: Instance web1 is locked"}}
    said = outcome_of_move.outcome("resize", "web1", refused, {}, False)
    assert (said.state, said.why, said.error) == ("failed", "InstanceIsLocked", refused["errors"]["web1"])


@pytest.mark.parametrize(
    "operation, way", [("resize", "kvm1 -> kvm3"), ("revert", "kvm3 -> kvm1"), ("confirm", "on kvm3")]
)
def test_the_plan_names_the_direction_that_the_instance_takes(operation, way):
    assert outcome_of_move.plan_line("web1", operation, move()).startswith("web1: %s, %s" % (operation, way))


@pytest.mark.parametrize(
    "sequence, said",
    [
        ("resize", "Its guest, if it runs, is stopped for the last part of the copy and started on kvm3"),
        ("resize_here", "Its guest, if it runs, is stopped and started again"),
        ("live_migrate", "Its guest keeps running"),
        ("confirm", "It cannot be reverted after this: what was kept for a revert is removed"),
        ("revert", "Its guest is stopped, and what it wrote since the move is lost"),
    ],
)
def test_before_anything_happens_the_plan_says_what_becomes_of_the_guest_and_of_the_way_back(sequence, said):
    assert outcome_of_move.plan_line("web1", "resize", move(sequence=sequence)).endswith(". " + said)


def here(old, new, **more):
    """web1 goes from one flavor to another on its host."""
    sizes = {"vcpus": 1, "memory_mb": 1024, "extra_specs": {"berth:max_vcpus": "4"}}
    old, new = ({"flavor": {"name": name, **sizes, **part}} for name, part in (("small", old), ("large", new)))
    views = {"source": {"role": "OWN", "spec": old, "migration": None}, "destination": {"role": None}}
    return move(sequence="resize_here", source="kvm1", destination="kvm1", spec=new, views=views, **more)


def test_the_plan_says_whether_a_resize_on_its_host_restarts_the_guest_and_why():
    grows = outcome_of_move.plan_line("web1", "resize", here({}, {"vcpus": 2}))
    assert grows.endswith(". Its guest, if it runs, gets its CPUs and memory without a restart")
    restarts = outcome_of_move.plan_line("web1", "resize", here({}, {"vcpus": 2, "root_gb": 9}))
    assert restarts.endswith(". Its guest, if it runs, is stopped and started again, because its disks change")


def test_the_plan_says_that_nothing_is_lost_by_the_revert_of_such_a_resize():
    known = here({}, {"vcpus": 2})
    known["views"]["source"]["migration"] = {"grown": True}
    line = outcome_of_move.plan_line("web1", "revert", {**known, "sequence": "revert_here"})
    assert "without a restart" in line and line.endswith("Nothing that it wrote is lost")


def test_the_table_says_that_the_guest_was_not_restarted():
    walked = {"move": {"phase": "resized", "confirm_in": None, "migration": {"grown": True}}}
    assert "without a restart" in outcome_of_move.outcome("resize", "web1", moves(), walked, False).why


def test_a_move_that_came_to_an_alternate_says_after_what():
    attempts = [{"attempt": 1, "host": "kvm2", "code": "ClaimFailed", "cause": "full"}]
    walked = {"move": {"phase": "resized", "confirm_in": None}, "attempts": attempts, "destination": "kvm3"}
    outcome = outcome_of_move.outcome("resize", "web1", moves(), walked, False)
    assert outcome.host == "kvm3" and outcome.why.endswith("attempt 2, after ClaimFailed on kvm2")


@pytest.mark.parametrize(
    "error, code",
    [
        ("NoValidHost: no valid host", "NoValidHost"),
        ("The conditional check failed: x", "Failed"),
        ("MaxRetriesExceeded: Exhausted all. Last cause: X: y", "MaxRetriesExceeded"),
    ],
)
def test_the_code_of_an_error_is_a_key_of_its_own_for_programs(error, code):
    assert (
        closing_table.Outcome("web1", "failed", error=error).to_dict()["error_code"]
        == closing_table.error_code(error)
        == code
    )
    assert "error_code" not in closing_table.Outcome("web1", "active").to_dict()


def test_what_an_error_of_a_create_says_as_data_is_told_to_programs():
    """R08"""
    error = {"code": "QuotaExceeded", "message": "over", "retryable": False, "hint": "wait", "limits": {"cores": 2}}
    instance = {"uuid": "u", "state": "failed", "host": None, "attempts": [], "error": error, "spec": {}}
    (said,) = outcome_of_create.outcomes({"instances": {"web1": instance}})
    assert said.to_dict()["error_details"] == {"limits": {"cores": 2}}
    assert "error_details" not in closing_table.Outcome("web1", "active").to_dict()


def test_an_instance_of_another_flavor_than_the_inventory_says_is_told_how_to_get_it():
    instance = {
        "name": "web1", "state": "active", "host": "kvm1", "attempts": [], "error": None, "existing": True,
        "spec": {"flavor": {"name": "large"}}, "result": {"flavor": "small", "state": "running"}, "why": "is there",
    }  # fmt: skip
    (said,) = outcome_of_create.outcomes({"instances": {"web1": instance}})
    assert (said.state, said.flavor) == ("unchanged", "small")
    assert said.why == "inventory says large. Run berth.kvm.resize --limit web1"


def test_an_instance_of_other_data_disks_than_the_inventory_says_is_told_how_to_get_them():
    instance = {
        "name": "web1", "state": "active", "host": "kvm1", "attempts": [], "error": None, "existing": True, "why": "is there",
        "spec": {"flavor": {"name": "small"}, "disks": [{"name": "logs", "size_gb": 2}]},
        "result": {"flavor": "small", "state": "running", "disks": {}},
    }  # fmt: skip
    (said,) = outcome_of_create.outcomes({"instances": {"web1": instance}})
    assert said.why == "has no data disk logs. Run berth.kvm.update_disks --limit web1"


def test_an_error_has_the_name_of_the_instance_and_not_its_uuid():
    uuid = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
    text = "InstanceNotResized: Instance %s has not been resized (%s)" % (uuid, uuid)
    assert closing_table.named(text, uuid, "web1") == "InstanceNotResized: Instance web1 has not been resized (web1)"
    assert closing_table.named("the guest of web1 (%s) on kvm1" % uuid, uuid, "web1") == "the guest of web1 on kvm1"


@pytest.mark.parametrize(
    "command",
    [
        "virsh blockcommit %(uuid)s vda --base /pool/instances/%(uuid)s/root.qcow2 --active --pivot",
        "qemu-img commit -f qcow2 -b /pool/instances/%(uuid)s/root.qcow2 -- /b/snap && rm -- /b/snap && virsh undefine %(uuid)s",
        "virsh detach-disk %(uuid)s vdb --config",
        "virsh nwfilter-dumpxml berth-%(uuid)s-0",
        "-e berth_name=web2 -e berth_uuid=%(uuid)s",
        "set berth_uuid: %(uuid)s for it",
    ],
)
def test_a_path_or_a_command_that_people_copy_keeps_the_uuid(command):
    uuid = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
    said = command % {"uuid": uuid}
    text = "the disks of web1 (%s) on kvm1 differ. As root on kvm1: %s; then run the same again" % (uuid, said)
    assert closing_table.named(text, uuid, "web1") == text.replace(" (%s)" % uuid, "")


def test_of_a_host_that_was_never_prepared_the_table_and_the_recap_say_so():
    plan = {
        "instances": {},
        "hosts": {"kvm1": {"reason": "InvalidReply: host_uuid"}},
        "unprepared": {"kvm1": "not prepared"},
    }
    assert outcome_of_create.left_out(plan) == {"kvm1": "not prepared"}
    assert outcome_of_create.creation(plan, [])[-1] == "host kvm1 left out: not prepared"


@pytest.mark.parametrize("operation", ["resize", "cold_migrate", "live_migrate", "migrate", "confirm", "revert"])
def test_a_move_that_acted_tells_last_what_it_left_otherwise_than_the_inventory_says(operation):
    left = "inventory says other image. %s" % operation_hints.rebuild_to_follow("web1")
    facts = {**moves(sequence=operation), "differs": {"web1": [left]}}
    said = outcome_of_move.outcome(operation, "web1", facts, {}, False)
    assert said.state != "unchanged" and said.why.startswith("was ") and said.why.endswith("; " + left)
    assert max(map(len, closing_table.closing([said], {}))) <= 80
    failed = outcome_of_move.outcome(operation, "web1", facts, {"failure": "MigrationError: cut"}, False)
    assert failed.why == "MigrationError"


GUEST = {"now": [["disk logs", "there", ""]], "next_start": [["vcpus", "1", "2"]]}


@pytest.mark.parametrize(
    "operation, kind, flavor, waits, guest",
    [
        ("resize", "resize", "large", True, None),
        ("cold_migrate", "migration", "large", True, None),
        ("migrate", "live-migration", "large", False, {"now": GUEST["now"]}),
        ("confirm", "resize", "large", False, GUEST),
        ("confirm_due", "resize", "large", False, GUEST),
        ("revert", "resize", "small", False, None),
    ],
)
def test_a_move_leaves_the_flavor_that_it_ends_with_and_of_the_guest_only_what_runs_on(
    operation, kind, flavor, waits, guest
):
    place = {"flavor": "older", "content": {}, "phase": "?", "role": "OUT", "domain_differs": GUEST, "nics": ["a"]}
    left = outcome_of_move.afterwards(operation, move(kind=kind), place)
    assert (left["flavor"], left["content"], left["role"], left["nics"]) == (flavor, {"name": flavor}, "OWN", ["a"])
    assert (left["phase"], left["domain_differs"]) == ("resized" if waits else "active", guest)


def test_a_move_that_had_nothing_to_do_tells_what_differs():
    facts = {**moves(act=False, why="is on kvm1 already"), "differs": {"web1": ["inventory says other SSH keys"]}}
    said = outcome_of_move.outcome("cold_migrate", "web1", facts, {}, False)
    assert said.why == "is on kvm1 already; inventory says other SSH keys"


def test_an_instance_that_is_off_tells_that_and_what_differs():
    instance = {
        "name": "web1", "state": "active", "host": "kvm1", "attempts": [], "error": None, "existing": True, "why": "is there",
        "spec": {"flavor": {"name": "small"}}, "differs": ["inventory says other SSH keys"],
        "result": {"flavor": "small", "state": "shutdown", "power_state": "shutdown", "vm_state": "stopped"},
    }  # fmt: skip
    (said,) = outcome_of_create.outcomes({"instances": {"web1": instance}})
    assert said.why == "stopped; run berth.kvm.start; inventory says other SSH keys"


@pytest.mark.parametrize("state", ["shutdown", "running"])
def test_an_instance_whose_disks_are_gone_is_not_told_to_start(state):
    lost = {"disks_missing": ["/pool/instances/u/root.qcow2"], "state": state, "power_state": "shutdown"}
    instance = {
        "name": "web1", "state": "active", "host": "kvm1", "attempts": [], "error": None, "existing": True, "why": "is there",
        "spec": {"flavor": {"name": "small"}}, "result": {"flavor": "small", **lost},
    }  # fmt: skip
    said = "gone: /pool/instances/u/root.qcow2. " + disk_hints.bring_files_back("kvm1", "web1")
    assert [one.why for one in outcome_of_create.outcomes({"instances": {"web1": instance}})] == [said]
    place = {"role": "OWN", "phase": "active", "vm_state": "active", **lost}
    assert show_instance.outcome("web1", [("kvm1", place)]).why == said


def test_an_instance_that_no_move_would_take_says_so_where_it_is_shown():
    place = {
        "role": "OWN",
        "phase": "active",
        "vm_state": "active",
        "state": "running",
        "disks_differ": ["vda is a layer"],
    }
    assert show_instance.outcome("web1", [("kvm1", place)]).why == "a move would be refused: vda is a layer"


def test_the_hosts_that_were_tried_are_told_with_the_name_of_the_instance_and_not_its_uuid():
    uuid = "9d852d78-5efb-58b1-992e-e3c61db183f7"
    attempt = {"attempt": 1, "host": "kvm2", "code": "X", "cause": "Instance %s cannot be moved" % uuid}
    assert (
        "Instance web1 cannot be moved" in closing_table.tried("web1", uuid, [attempt, {**attempt, "host": "kvm3"}])[-1]
    )


def test_what_failed_on_one_host_alone_is_not_told_twice():
    attempt = {"attempt": 1, "host": "kvm2", "code": "X", "cause": "no bridge"}
    assert closing_table.tried("web1", "u", [attempt]) == []


@pytest.mark.parametrize("check_mode, state", [(True, "would be stopped"), (False, "stopped")])
def test_check_mode_says_what_would_be_stopped(check_mode, state):
    instance = {"state": "existing", "changed": True, "berth_state": "stopped"}
    assert outcome_of_create._state(instance, check_mode) == state


def test_a_nic_with_an_address_of_each_version_counts_twice():
    asked, made = {"address": ["192.0.2.1", "2001:db8::1"]}, {"address": "192.0.2.1/24", "address6": "2001:db8::1/64"}
    assert closing_table.address_of([asked]) == closing_table.address_of([made]) == "192.0.2.1 +1"
