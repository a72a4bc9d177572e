# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups that a backup host keeps, of a guest that writes all the time: full, increments, killed, and restored in place and
elsewhere."""

from __future__ import annotations

import json
import re
import time

import pytest
from test_backup import MADE, restored_under_a_new_name
from test_migrate_refused_or_broken_off import other_host
from test_resize import cases, facts, mover, verified  # noqa: F401  pylint: disable=unused-import

TO = "/var/lib/libvirt/backups"  # a file system of its own
LISTED = re.compile(r"    (2\d{7}T\d{6}Z) (.*)")
NOTES = "virsh checkpoint-list --name $(virsh -q list --all --name | head -1)"
LEFT = "ls -A %s/*/ /run/berth/moves | grep -e partial -e '^[0-9a-f]*-' || true" % TO


@pytest.fixture
def case(mover):  # noqa: F811
    """The mover, and a host without instances of it that keeps backups: ``keeper``."""
    found, owner = mover
    target = other_host(found, owner)
    found.keeper = [host for host in found.lab.hosts if host not in (owner, target)][-1]
    tree = json.loads(found.path.read_text())
    tree["all"]["children"]["berth_backup_hosts"] = {"hosts": {found.keeper: {}}}
    tree["all"]["vars"].update(berth_backup_host=found.keeper, berth_backup_to=TO)
    found.path.write_text(json.dumps(tree))
    found.lab.sh(found.keeper, "rm -rf %s; mkdir %s" % (TO, TO))
    yield found
    found.lab.sh(found.keeper, "rm -rf %s" % TO)


def back_up(case, **more):  # noqa: F811
    """(id, kind) of the backup that was made."""
    return MADE.search(case.play("backup", more).output).groups()


def backups_of(case):  # noqa: F811
    """{id: the rest of the line that tells it}. All is read."""
    said = case.play("backups", {"berth_backup_deep": True}).output
    return dict(match.groups() for match in map(LISTED.match, said.splitlines()) if match)


def left(case):  # noqa: F811
    return [line for host in case.lab.hosts for line in case.lab.sh(host, LEFT).stdout.split()]


@pytest.mark.slow
def test_increments_of_a_writing_guest_go_on_across_moves_and_come_back_whole(case):
    source = case.owner()
    kinds = [back_up(case)[1]]
    facts(case, source, lambda said: said["ack"] > 20)
    kinds.append(back_up(case)[1])
    assert case.lab.sh(source, NOTES).stdout.strip() == ""  # libvirt would move no guest with one
    case.play("live_migrate", {"berth_target_host": other_host(case, source)})
    kinds.append(back_up(case)[1])
    before = facts(case, case.owner())["ack"]
    case.play("stop")
    kinds.append(back_up(case)[1])
    assert kinds == ["full", "increment", "increment", "increment"]
    case.play("start")
    facts(case, case.owner(), lambda said: said["ack"] > before + 20)
    case.play("stop")
    said = case.play("restore", check=False)
    assert said.rc and "RestoreDiscards" in said.output
    assert case.play("restore", {"berth_restore_discards": cases.NAME}).changed[cases.NAME] == 1
    case.play("start")
    inside = facts(case, case.owner(), verified)
    assert inside["verify"]["result"] == "ok" and inside["verify"]["last"] >= before
    assert not [line for line in backups_of(case).values() if "CANNOT" in line] and left(case) == []


def test_a_backup_goes_on_elsewhere_under_a_new_name_with_all_that_was_acknowledged(case, tmp_path):
    source = case.owner()
    back_up(case)
    acknowledged = facts(case, source, lambda said: said["ack"] > 30)["ack"]
    back_up(case)
    restored_under_a_new_name(case, tmp_path, source, acknowledged)


@pytest.mark.parametrize("who", ["controller", "sender", "libvirtd", "guest", "power of the backup host", "link"])
@pytest.mark.slow
def test_a_backup_that_is_cut_off_leaves_the_last_one_whole_and_moves_go_on(case, who):
    source = case.owner()
    first = back_up(case)[0]
    process = case.start("backup", {"berth_backup_full": True})
    until = time.monotonic() + 60
    while not case.lab.sh(case.keeper, "ls -d %s/*/.partial-*" % TO, check=False).stdout:
        assert time.monotonic() < until
    if who == "controller":
        process.kill()
    elif who == "sender":
        case.lab.sh(source, "pkill -9 -f [A]nsiballZ_instance_backup; true")
    elif who == "libvirtd":
        case.lab.restart_libvirtd(source)
    elif who == "guest":
        case.lab.sh(source, "virsh destroy $(virsh -q list --name | head -1); true")
    elif who == "link":
        case.lab.cut(case.keeper)
    else:
        case.lab.crash(case.keeper)
    if who != "controller":
        process.communicate(timeout=180)
    if who == "link":
        case.lab.heal(case.keeper)
    elif who == "power of the backup host":
        case.lab.start(case.keeper)
    found = backups_of(case)
    assert "CANNOT" not in found[first] and len(found) <= 2
    if who == "guest":
        case.play("start")
    case.play("live_migrate", {"berth_target_host": other_host(case, source)})
    back_up(case)
    assert not [line for line in backups_of(case).values() if "CANNOT" in line] and left(case) == []
