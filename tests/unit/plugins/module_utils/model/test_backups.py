# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which backups a wish keeps, and how a backup describes itself."""

from __future__ import annotations

import json

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import show_backup
from ansible_collections.berth.kvm.plugins.module_utils.model import backups
from ansible_collections.berth.kvm.plugins.module_utils.model.backups import Backup, Disk
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
NOW = "20260110T000000Z"


def of_day(day, previous=None):
    disk = Disk("root", "increment" if previous else "full", "", 1 << 30, 1 << 20, "0" * 64)
    on = previous and "202601%02dT000000Z" % previous
    return Backup("202601%02dT000000Z" % day, UUID, "web1", "default", "kvm1", on, False, (disk,), {"uuid": UUID})


CHAINS = [of_day(1), of_day(2, 1), of_day(3, 2), of_day(4), of_day(5, 4), of_day(6)]


@pytest.mark.parametrize(
    "keep, days, gone",
    [
        (None, None, []),
        (1, None, [5, 4, 3, 2, 1]),
        (2, None, [3, 2, 1]),  # the fifth stands on the fourth
        (4, None, []),
        (None, 5, [3, 2, 1]),
        (None, 1, [5, 4, 3, 2, 1]),  # the last one always stays
        (1, 7, []),  # the third is kept, with all below
        (100, 1, []),
    ],
)
def test_what_no_wish_keeps_goes_newest_first_and_never_what_stands_under_one_that_stays(keep, days, gone):
    assert [int(each[6:8]) for each in backups.removable(CHAINS, keep, days, NOW)] == gone


def test_an_increment_whose_full_one_is_gone_is_no_reason_to_keep_others():
    assert backups.removable([of_day(2, 1), of_day(3)], 1, None, NOW) == ["20260102T000000Z"]


def test_what_may_stand_under_one_that_stays_stays_if_nobody_can_read_what_lies_between():
    found = [of_day(1), of_day(2, 1), of_day(4, 3), of_day(5)]  # the third does not describe itself
    assert backups.removable(found, 2, None, NOW) == []
    assert [int(each[6:8]) for each in backups.removable(found, 1, None, NOW)] == [4, 2, 1]


def test_a_backup_is_read_as_it_was_written():
    for backup in CHAINS:
        assert Backup.from_dict(json.loads(json.dumps(backup.to_dict()))) == backup


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"id": "x"},
        {"disks": None},
        {"frozen": 1},
        {"name": "a\x1bb"},
        {"previous": "../x"},
        {"host": None},
    ],
)
def test_what_is_no_description_is_refused_with_its_field(change):
    with pytest.raises(InvalidInput, match=next(iter(change))):
        Backup.from_dict({**of_day(1).to_dict(), **change})


def test_two_that_stand_on_each_other_are_no_chain():
    known = {each.id: each for each in (of_day(1, 2), of_day(2, 1))}
    with pytest.raises(KeyError):
        backups.chain(known[of_day(1).id], known)


def test_people_read_what_was_made_why_it_is_large_and_what_cannot_be_restored():
    made = {
        "id": NOW,
        "of": "web1",
        "kind": "full",
        "previous": None,
        "bytes": 1,
        "frozen": True,
        "files": ["nvram.fd", "tpm2-00.permall"],
        "why": ["root: x"],
        "faults": [],
    }
    (line,) = show_backup.lines("backup", "web1", "kvm1", [made])
    assert line == (
        "web1 on kvm1: backup %s of web1, full, 1 MiB; file systems frozen; with UEFI variables; "
        "with the state of its TPM; all of root: x" % NOW
    )
    found = show_backup.lines("backups", "web1", "kvm1", [{**made, "faults": ["f"]}, {"id": "i", "faults": ["g"]}])
    assert found[2].endswith("CANNOT BE RESTORED: f") and found[3] == "    i is none: g"
    assert show_backup.lines("backups", "web1", "kvm1", [])[-1] == "    none"
