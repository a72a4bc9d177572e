# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kill sweep would call a violation, and where it strikes: the sweep itself runs on the lab (tests/faults)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "faults"))

import invariants  # noqa: E402
import operations  # noqa: E402
import run  # noqa: E402
from hosts import View  # noqa: E402

UUID = "c26570c3-6efe-583a-9532-38a5d1328ce3"


def view(role=None, state=None, files=("root.qcow2", "seed.iso", "owner"), up=True, **more):
    record = {"role": role, "generation": [1, 3], "resources": {"memory_mb": 128}, **more}
    return View(
        up=up,
        records={UUID: record} if role else {},
        domains={UUID: (state, 128)} if state else {},
        files=["%s/%s" % (UUID, name) for name in files],
    )


@pytest.mark.parametrize(
    ("rule", "one", "other", "violated"),
    [
        ("one_runs", view("OWN", "running"), view("IN", "paused"), None),
        ("one_runs", view("OWN", "running"), view("OWN", "running"), "I1"),
        ("one_runs", view("OUT", "running"), view("OWN"), "I1"),
        ("one_runs", view("IN", "running"), view(), "I1"),
        ("one_runs", view(None, "running"), view(), "I1"),
        ("claims_hold", view("OWN", "running"), view(), None),
        ("claims_hold", view("OWN", "running", resources={"memory_mb": 127}), view(), "I2"),
        ("claims_hold", view(None, "paused"), view(), "I2"),
        ("a_disk_is_there", view("OUT"), view("IN", files=["root.qcow2.incoming-1"]), None),
        ("a_disk_is_there", view("OUT", files=[], up=False), view("IN", files=[]), None),
        ("a_disk_is_there", view("OWN", files=["seed.iso", "owner", "root.qcow2.tmp"]), view("IN"), "I3"),
        ("a_disk_is_there", view("OUT", files=[]), view("OWN", files=["root.qcow2.incoming-1"]), "I3"),
        ("a_disk_is_there", view(files=[]), view(files=[]), None),
    ],
)
def test_an_invariant_that_holds_at_any_moment_is_seen_to_break(rule, one, other, violated):
    said = getattr(invariants, rule)({"kvm1": one, "kvm2": other})
    assert (said or "").partition(" ")[0] == (violated or "")


def test_on_shared_storage_a_disk_may_be_seen_by_the_other_host_alone():
    """I3: a host that was just booted has not mounted it yet."""
    views = {"kvm1": view("OWN", files=[]), "kvm2": view("IN")}
    assert invariants.a_disk_is_there(views, shared=True) is None
    assert invariants.a_disk_is_there(views).startswith("I3")


def test_a_generation_that_falls_is_seen():
    """I12."""

    class Host:
        name = "kvm1"

    watcher = invariants.Watcher([Host])
    for generation, said in (([1, 3], None), ([2, 0], None), ([1, 9], "I12")):
        Host.view = staticmethod(lambda generation=generation: view("OWN", generation=generation))
        assert (watcher._look() or "").partition(" ")[0] == (said or "")


TASKS = [
    {"number": 0, "name": "look", "on_host": True, "changed": False, "seconds": 0.4},
    {"number": 1, "name": "plan", "on_host": False, "changed": False, "seconds": 0.1},
    {"number": 2, "name": "begin", "on_host": True, "changed": True, "seconds": 0.4},
    {"number": 3, "name": "copy", "on_host": True, "changed": True, "seconds": 4.0},
]
COPYING = [(3, 800), (3, 2000), (3, 3200)]


@pytest.mark.parametrize(
    ("kind", "points"),
    [
        ("controller", [(0, 0), (1, 0), (2, 0), (2, 200), (3, 0), *COPYING, (4, 0)]),
        ("crash-source", [(0, 0), (2, 0), (3, 0), *COPYING, (4, 0)]),
    ],
)
def test_the_controller_dies_at_every_task_and_hosts_at_theirs_and_within_the_long_ones(kind, points):
    assert operations.points(kind, TASKS) == points


@pytest.mark.parametrize("name", ["resize:controller:3", "cold:cut-source:12+450", "live:crash-source:L4 L5+20"])
def test_a_fault_is_replayed_by_its_name(name):
    assert str(operations.Fault.called(name)) == name


@pytest.mark.parametrize(
    "name", ["resize:controller", "shrink:controller:3", "resize:flood:3", "resize:cut-source:3+x"]
)
def test_a_name_of_no_fault_is_refused(name):
    with pytest.raises(ValueError, match="names no fault"):
        operations.Fault.called(name)


def test_every_operation_begins_where_another_one_ends():
    states = {one.end for one in operations.OPERATIONS.values()}
    assert {one.begin for one in operations.OPERATIONS.values()} == states
    assert {operations.OPERATIONS[name].end for name in operations.PREPARE.values()} == states - {"active"}
    assert {operations.OPERATIONS[name].end for name in operations.END.values()} == {"active"}


def test_a_sweep_that_was_ended_goes_on_with_what_did_not_pass():
    output = "ok live:controller:9+134 (R1 Take up; 25 s, 1 done)\n  as it was\nVIOLATION cold:cut-source:3 (R2; 9 s, 2 done)\n"
    assert run.passed(output) == {"live:controller:9+134"}
