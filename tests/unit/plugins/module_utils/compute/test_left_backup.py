# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a killed backup left in a running guest: whatever is done with the instance next ends it."""

from __future__ import annotations

import pytest
from adopt_case import Found
from instance_case import Case
from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import owner
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import acts
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import left_backup, moving_host, rehearsal
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import RESIZING

OURS = "<domainbackup mode='push'><disks><disk name='vda'><target file='%s'/></disk></disks></domainbackup>"
THEIRS = "<domainbackup mode='push'><disks><disk name='vda'><target file='/srv/theirs'/></disk></disks></domainbackup>"
GIVEN = {"shutdown_timeout": 1, "reboot": "hard", "token": None, "seed": None}
NOTED = paths.bitmap_of("20260101T000000Z")


def leave_backup(case, disk):
    """As a run leaves it that is killed while QEMU copies the disk. Return the file that it writes."""
    scratch = disk.with_name(disk.name + ".scratch")
    assert paths.scratch_file(str(disk)) == str(scratch)
    scratch.write_text("what changed")
    case.domain.backup, case.domain.checkpoints = OURS % scratch, [NOTED, "theirs"]
    return scratch


class Web(Case):
    def act(self, state, dry=False):
        return acts.act(self.instance(), {"state": state, **GIVEN}, dry)


@pytest.fixture
def web(prepared, wanted):
    case = Web(prepared, wanted("web1"))
    case.make()
    return case


def is_ended(case, scratch):
    return case.domain.backup is None and case.domain.checkpoints == ["theirs"] and not scratch.exists()


@pytest.mark.parametrize("state", ["paused", "suspended", "stopped", "rebooted", "started"])
def test_whatever_is_done_with_the_guest_next_ends_it_and_a_check_run_leaves_it(web, state):
    scratch = leave_backup(web, web.root)
    web.act(state, dry=True)
    assert web.domain.backup and scratch.exists()
    web.act(state)
    assert is_ended(web, scratch)


def test_a_delete_ends_it_and_no_file_stays_beside_the_disks_of_an_adopted_instance(prepared, tmp_path):
    guest = Found(prepared, tmp_path)
    guest.adopt()
    scratch = leave_backup(guest, guest.disk)
    acts.act(guest.instance(), {"state": "absent", "changed_disks": False, "after": None}, False)
    assert guest.record is None and not scratch.exists() and not guest.disk.exists()


def test_an_instance_that_leaves_takes_no_backup_of_ours_along(prepared, tmp_path):
    guest = Found(prepared, tmp_path)
    guest.adopt()
    scratch = leave_backup(guest, guest.disk)
    acts.act(guest.instance(), {"state": "left", "after": None}, False)
    assert guest.record is None and guest.domain.isActive() and is_ended(guest, scratch)


def test_a_backup_of_another_program_goes_on(web):
    leave_backup(web, web.root)
    web.domain.backup = THEIRS
    web.act("paused")
    assert web.domain.backup == THEIRS


def test_a_backup_that_a_move_makes_is_not_ended_by_an_operation_that_it_refuses(web):
    scratch = leave_backup(web, web.root)
    plant(web.host.store, web.record.replace(phase=RESIZING))
    left_backup.end_at_rest(web.host, web.uuid)
    assert web.domain.backup and scratch.exists()


def test_files_beside_disks_that_are_another_hosts_by_now_stay(web):
    scratch = leave_backup(web, web.root)
    owner.write(str(web.host.pool), web.uuid, "another")
    left_backup.end_at_rest(web.host, web.uuid)
    assert scratch.exists()


@pytest.mark.parametrize("dry", [True, False])
def test_a_move_ends_it_before_it_begins_and_its_check_run_does_not(web, dry):
    scratch = leave_backup(web, web.root)
    effects = moving_host.MovingHost(web.host).effects
    if dry:
        effects = rehearsal.Effects(effects)
    effects.end_left_backup(web.record)
    assert is_ended(web, scratch) is not dry
