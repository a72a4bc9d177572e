# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What libvirt's tools do to a guest's definition: a new name, a copy of it with the same disks, a disk that is another
file. No guest runs twice, no disk is lost, and doing what the messages say ends it (I1, I3)."""

from __future__ import annotations

import pytest
from test_resize import BIG, cases, facts, mover, verified  # noqa: F401  pylint: disable=unused-import
from test_snapshots import follow, refused

from playbooks import homes

COPY = r"""
virsh dumpxml --inactive $(virsh -q list --all --uuid) |
  sed 's:<name>.*</name>:<name>copy</name>:; /<uuid>/d; /<mac /d; /<log file/d; /<metadata/,/<.metadata>/d' > /root/copy.xml
virsh define /root/copy.xml && virsh %s copy
"""


def test_a_guest_that_somebody_renamed_migrates_live_and_has_its_uuid_for_a_name_again(mover):  # noqa: F811
    case, source = mover
    (uuid,) = case.look(source)["running"]
    case.play("stop")
    case.lab.exec(source, "virsh", "domrename", uuid, "web-five")
    case.play("start")
    case.play("live_migrate")
    destination = homes(case.lab)[cases.NAME]
    assert destination != source and case.lab.domains(destination) == [uuid]


@pytest.mark.follows("undefine_users_of_disks")
def test_beside_a_copy_of_a_guest_that_runs_from_its_disks_nothing_is_started_moved_or_removed(mover):  # noqa: F811
    case, source = mover
    facts(case, source)
    case.play("stop")
    case.lab.sh(source, COPY % "start")
    for playbook in ("start", "resize", "delete"):
        done = case.play(playbook, BIG if playbook == "resize" else (), check=False)
        assert done.rc and "DisksUsed" in done.output and "copy (" in done.output, done.output
    assert case.lab.domains(source) == ["copy"]
    case.lab.sh(
        source, "virsh destroy copy; virsh undefine copy --keep-nvram --snapshots-metadata --checkpoints-metadata"
    )
    case.play("start")
    assert facts(case, source, verified)["verify"]["result"] == "ok"


@pytest.mark.follows("undefine_users_of_disks")
def test_a_confirm_removes_no_disk_under_a_copy_that_is_off(mover):  # noqa: F811
    case, source = mover
    facts(case, source)
    case.play("resize", BIG)
    case.lab.sh(source, COPY % "domstate")
    before = case.look(source)["files"]
    done = case.play("confirm_resize", check=False)
    assert done.rc and "DisksUsed" in done.output, done.output
    assert case.look(source)["files"] == before
    case.lab.sh(source, "virsh undefine copy --keep-nvram --snapshots-metadata --checkpoints-metadata")
    case.play("confirm_resize")
    assert case.look(source)["files"] == []


@pytest.mark.follows("take_disks_back")
def test_a_resize_whose_disk_somebody_committed_into_the_kept_one_is_confirmed_when_the_message_is_followed(
    mover,  # noqa: F811
):
    case, source = mover
    facts(case, source)
    case.play("resize", {**dict(BIG), "berth_allow_resize_to_same_host": True, "berth_target_host": source})
    inside = facts(case, source, verified)
    case.lab.sh(source, "virsh blockcommit $(virsh -q list --uuid) vda --active --shallow --pivot --wait")
    output = refused(case, "confirm_resize")
    follow(case, source, output)
    case.play("confirm_resize")
    case.play("stop")
    case.play("start")
    after = facts(case, source, lambda said: said["boots"] > inside["boots"] and verified(said))
    assert after["verify"]["result"] == "ok" and after["ack"] >= inside["ack"]
