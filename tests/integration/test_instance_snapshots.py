# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of a guest that writes all the time: made while it runs, taken along by moves, gone back to (I3)."""

from __future__ import annotations

import pytest
from test_migrate_refused_or_broken_off import other_host
from test_resize import BIG, cases, facts, mover, verified  # noqa: F401  pylint: disable=unused-import

from playbooks import homes

ONE, TWO = {"berth_snapshot": "one"}, {"berth_snapshot": "two"}
TAGS = "qemu-img snapshot -U -l /var/lib/libvirt/berth/instances/*/root.qcow2 | awk 'NR > 2 {print $2}'"
MEMORY = "ls /var/lib/libvirt/berth/instances/*/ | grep memory- || true"
CHECK = "qemu-img check -q /var/lib/libvirt/berth/instances/*/root.qcow2"


def tags(case, host):
    return case.lab.sh(host, TAGS).stdout.split()


def writes_more(case, host, blocks=20):
    """Return what the guest has acknowledged now, and make sure that it writes on."""
    now = facts(case, host)["ack"]
    facts(case, host, lambda said: said["ack"] > now + blocks)
    return now


def reverted(case, host, name, before):
    """Stop, go back, start. Return what the guest finds."""
    case.play("stop")
    told = case.play("revert_snapshot", name)
    assert "gives up what was written to root since" in " ".join(told.output.split()), told.output
    case.play("start")
    return facts(case, host, lambda said: len(said["verdicts"]) > len(before["verdicts"]) and verified(said))


@pytest.mark.follows("move_cold")
def test_a_guest_goes_back_to_what_it_had_written_when_its_snapshot_was_made_also_on_another_host(mover):  # noqa: F811
    case, source = mover
    before = writes_more(case, source)
    assert (
        case.play("snapshot", ONE).changed[cases.NAME] == 1
        and case.play("snapshot", ONE).changed.get(cases.NAME, 0) == 0
    )
    at_one = writes_more(case, source)
    case.play("snapshot", TWO)
    at_two = writes_more(case, source)
    assert tags(case, source) == ["berth-one", "berth-two"]
    listed = case.play("snapshots").output
    assert "one" in listed and "running" in listed, listed

    refused = case.play("live_migrate", check=False)
    said = " ".join(refused.output.split())
    assert refused.rc and "would leave its snapshots behind: one, two" in said, said
    assert "berth.kvm.cold_migrate --limit mover takes them along" in said
    target = other_host(case, source)
    case.play("cold_migrate", {"berth_target_host": target})
    moved = facts(case, target, verified)
    assert moved["verify"]["result"] == "ok" and moved["verify"]["last"] >= at_two
    assert homes(case.lab)[cases.NAME] == target and tags(case, target) == ["berth-one", "berth-two"]
    case.play("confirm_resize")

    inside = reverted(case, target, TWO, moved)
    assert inside["verify"]["result"] == "ok" and at_one <= inside["verify"]["last"] < moved["verify"]["last"]
    inside = reverted(case, target, ONE, inside)
    assert inside["verify"]["result"] == "ok" and before <= inside["verify"]["last"] < at_two
    for name in (ONE, TWO):  # of a guest that runs
        assert case.play("delete_snapshot", name).changed[cases.NAME] == 1
    assert tags(case, target) == []
    case.play("stop")
    case.lab.sh(target, CHECK)


@pytest.mark.slow
def test_a_resize_on_the_same_host_and_its_revert_keep_the_snapshots(mover):  # noqa: F811
    case, source = mover
    before = writes_more(case, source)
    case.play("snapshot", ONE)
    writes_more(case, source)
    here = {**BIG, "berth_allow_resize_to_same_host": True, "berth_target_host": source}
    case.play("resize", here)
    assert tags(case, source)[0] == "berth-one"
    case.play("revert_resize", here)
    case.play("resize", here)
    case.play("confirm_resize", here)
    assert tags(case, source) == ["berth-one"]
    inside = reverted(case, source, ONE, facts(case, source, verified))
    assert inside["verify"]["result"] == "ok" and inside["verify"]["last"] >= before
    assert inside["disk"] == 2 << 30, "it keeps the size that it got since"


@pytest.mark.slow
def test_a_guest_goes_on_from_the_memory_of_its_snapshot_with_the_disks_of_that_moment(mover):  # noqa: F811
    """It is not booted: it writes on after the last block that it had acknowledged then, and its next boot finds all intact."""
    case, source = mover
    with_memory = {**ONE, "berth_snapshot_memory": True}
    before = writes_more(case, source)
    assert case.play("snapshot", with_memory).changed[cases.NAME] == 1
    assert case.play("snapshot", with_memory).changed.get(cases.NAME, 0) == 0
    after = writes_more(case, source)
    listed = " ".join(case.play("snapshots").output.split())
    assert " one 20" in listed and " running yes " in listed, listed
    refused = case.play("cold_migrate", check=False)
    assert refused.rc and "snapshots with memory stay on their host: one" in " ".join(refused.output.split())
    case.play("stop")
    booted = facts(case, source)
    assert case.play("revert_snapshot", ONE).changed[cases.NAME] == 1
    assert case.play("revert_snapshot", ONE).changed.get(cases.NAME, 0) == 0
    now = facts(case, source, lambda said: (said["seq"], said["up"]) != (booted["seq"], booted["up"]))
    assert len(now["verdicts"]) == len(booted["verdicts"]), "it was booted"
    case.play("stop")
    case.play("start")
    inside = facts(case, source, lambda said: len(said["verdicts"]) > len(booted["verdicts"]) and verified(said))
    assert inside["verify"]["result"] == "ok" and inside["verify"]["last"] >= before, (before, after, inside)
    case.play("delete_snapshot", ONE)
    assert tags(case, source) == [] and case.lab.sh(source, MEMORY).stdout.split() == []
