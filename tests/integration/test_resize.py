# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resize, confirm and revert, seen from outside and from inside a guest that writes all the time (R01-R29)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from playbooks import homes, records

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "faults"))

import cases  # noqa: E402

BIG = {"mover_flavor": cases.BIGGER}


@pytest.fixture
def mover(lab, image, tmp_path):
    """A running instance whose guest writes numbered blocks -> (case, its host)."""
    case = cases.Case(lab, image, tmp_path)
    case.play("create")
    lab.guest_facts(cases.NAME, timeout=120, until=lambda said: said["ack"] > 0)
    return case, case.owner()


def facts(case, host, until=lambda said: True):
    return case.lab.guest_facts(cases.NAME, host, timeout=180, until=until)


def verified(said):
    """It was started, has looked at all that it had written, and writes on."""
    return said["verify"]["result"] != "none" and said["ack"] > 0


def phases(case):
    return {host: [record["phase"] for record in case.look(host)["records"]] for host in case.lab.hosts}


def test_resize_moves_the_guest_with_all_it_acknowledged_and_confirm_removes_the_source(mover):
    case, source = mover
    acknowledged = facts(case, source)["ack"]
    done = case.play("resize", BIG)
    assert done.changed[cases.NAME] > 0
    destination = homes(case.lab)[cases.NAME]
    assert destination != source
    inside = facts(case, destination, verified)
    assert (inside["vcpus"], inside["disk"]) == (2, 2 << 30)
    assert inside["verify"]["result"] == "ok" and inside["ack"] >= acknowledged
    assert case.play("resize", BIG).changed[cases.NAME] == 0
    assert phases(case)[source] == ["keep"]

    case.play("confirm_resize", BIG)
    assert records(case.lab) == [(destination, cases.NAME, "OWN")]
    assert case.look(source)["files"] == []
    assert case.play("confirm_resize", BIG).changed.get(cases.NAME, 0) == 0


def test_what_a_guest_writes_while_its_disk_is_copied_is_copied_again_before_it_stops(lab, image, tmp_path):
    """About 20 MiB/s: more than a moment's worth is left after the first copy, and less after each further one."""
    case = cases.Case(lab, image, tmp_path, user_data=cases.WRITER + "# lab-load: 256\n")
    case.play("create")
    source = case.owner()
    disk = "/var/lib/libvirt/berth/instances/*/root.qcow2"
    written = "for each in $(seq 120); do [ $(du -m %s | cut -f1) -lt 250 ] || exit 0; sleep 1; done; exit 1" % disk
    lab.sh(source, written, timeout=150)
    acknowledged = facts(case, source)["ack"]
    case.play("resize", BIG)
    copies = sorted(name.rpartition("-")[2] for name in case.look(source)["files"] if name.count("-1-"))
    assert copies[:2] == ["0", "1"], case.look(source)["files"]
    assert not any(name.endswith(".scratch") for name in case.look(source)["files"])
    inside = facts(case, homes(lab)[cases.NAME], verified)
    assert inside["verify"]["result"] == "ok" and inside["ack"] >= acknowledged


def test_revert_goes_back_to_the_old_flavor_and_leaves_nothing(mover):
    case, source = mover
    nonce = facts(case, source)["nonce"]
    case.play("resize", BIG)
    destination = homes(case.lab)[cases.NAME]
    case.play("revert_resize", BIG)
    assert homes(case.lab)[cases.NAME] == source
    inside = facts(case, source, lambda said: said["vcpus"] == 1 and said["up"] < 120)
    assert (inside["nonce"], inside["disk"]) == (nonce, 1 << 30)
    assert case.look(destination)["files"] == []


@pytest.mark.slow
def test_resize_on_the_same_host_both_ways(mover):
    """R04: no second copy of the disk."""
    case, source = mover
    here = {**BIG, "berth_allow_resize_to_same_host": True, "berth_target_host": source}
    case.play("resize", here)
    assert facts(case, source, lambda said: said["vcpus"] == 2)["disk"] == 2 << 30
    case.play("revert_resize", here)
    assert facts(case, source, lambda said: said["vcpus"] == 1)["disk"] == 1 << 30
    case.play("resize", here)
    case.play("confirm_resize", here)
    assert not [name for name in case.look(source)["files"] if ".pre-" in name]
    assert homes(case.lab) == {cases.NAME: source}


def test_a_stopped_instance_stays_stopped(mover):
    case, source = mover
    case.play("stop")
    case.play("resize", BIG)
    assert case.look(homes(case.lab)[cases.NAME])["active"] == []


def test_a_smaller_disk_is_refused_and_nothing_changed(mover):
    """R13, I11."""
    case, source = mover
    case.play("resize", BIG)
    case.play("confirm_resize", BIG)
    before = records(case.lab)
    refused = case.play("resize", check=False)
    assert refused.rc and "CannotResizeDisk" in refused.output
    assert records(case.lab) == before


def test_confirm_of_what_was_not_resized_is_refused(mover):
    """R14."""
    refused = mover[0].play("confirm_resize", check=False)
    assert refused.rc and "has not been resized" in refused.output


@pytest.mark.slow
def test_a_data_disk_goes_with_its_guest_to_the_other_host(lab, image, tmp_path):
    """C24: written inside, made larger with another beside it while the guest runs, read inside after the move, and gone with
    the instance."""
    case = cases.Case(lab, image, tmp_path, disks={"data": {"size_gb": 1}})
    case.play("create")
    source = case.owner()
    inside = facts(case, source, lambda said: said["extra"] == "new")
    assert list(inside["disks"].values()).count(1 << 30) == 2  # root and data
    disks = {"berth_disks": {"data": {"size_gb": 3}, "more": {"size_gb": 4}}}
    assert case.play("update_disks", disks).changed[cases.NAME] > 0
    assert case.play("update_disks", disks).changed.get(cases.NAME, 0) == 0
    facts(case, source, lambda said: {3 << 30, 4 << 30} <= set(said["disks"].values()) and said["boots"] == 1)
    case.play("resize", BIG)
    destination = homes(lab)[cases.NAME]
    assert destination != source
    there = facts(case, destination, lambda said: said["boots"] == 2)
    assert there["extra"] == inside["nonce"] and {3 << 30, 4 << 30} <= set(there["disks"].values())
    case.play("confirm_resize", BIG)
    case.play("delete")
    assert case.look(destination)["files"] == [] == case.look(source)["files"]
