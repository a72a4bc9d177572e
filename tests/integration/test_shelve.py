# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest that writes all the time is shelved to a backup host and comes back with all that it was told is written."""

from __future__ import annotations

import pytest
from test_backup_host import backups_of, case, left  # noqa: F401  pylint: disable=unused-import
from test_resize import cases, facts, mover, verified  # noqa: F401  pylint: disable=unused-import

DISKS = "ls /var/lib/libvirt/berth/instances/*/ | grep -e root -e data || true"
DEFINED = "virsh -q list --all --name"


def test_a_shelved_guest_leaves_no_disks_and_comes_back_with_all_that_was_acknowledged(case):  # noqa: F811
    host = case.owner()
    before = facts(case, host, lambda said: said["ack"] > 20)["ack"]
    had = case.lab.sh(host, DISKS).stdout
    assert case.play("shelve").changed[cases.NAME] == 1
    assert case.lab.sh(host, DISKS).stdout != had and case.lab.sh(host, DEFINED).stdout.strip() == ""
    assert "shelved_offloaded" in case.play("show").output
    said = case.play("start", check=False)
    assert said.rc and "berth.kvm.unshelve" in said.output
    assert case.play("shelve").changed[cases.NAME] == 0 and case.owner() == host
    assert case.play("unshelve").changed[cases.NAME] == 1
    inside = facts(case, host, verified)
    assert inside["verify"]["result"] == "ok" and inside["verify"]["last"] >= before
    assert case.lab.sh(host, DISKS).stdout == had and case.play("unshelve").changed[cases.NAME] == 0
    assert len(backups_of(case)) == 1 and left(case) == []


SETTING = 's/"reserved_host_memory_mb": [0-9]*/"reserved_host_memory_mb": 1048576/'
FULL = "cp -p /etc/berth/host.json /run; sed -i '%s' /etc/berth/host.json" % SETTING
HAS = "ls -A /var/lib/libvirt/berth/instances /var/lib/berth/instances | grep -e - || true; virsh -q list --all --name"


@pytest.mark.slow
def test_a_shelved_guest_whose_host_is_full_comes_back_on_another_one(case):  # noqa: F811
    first = case.owner()
    before = facts(case, first, lambda said: said["ack"] > 20)["ack"]
    case.play("shelve")
    case.lab.sh(first, FULL)
    assert case.play("unshelve").changed[cases.NAME] == 1
    second = case.owner()
    inside = facts(case, second, verified)
    assert inside["verify"]["result"] == "ok" and inside["verify"]["last"] >= before
    assert second != first and case.lab.sh(first, HAS).stdout.strip() == ""
    case.lab.sh(first, "mv /run/host.json /etc/berth/host.json")
