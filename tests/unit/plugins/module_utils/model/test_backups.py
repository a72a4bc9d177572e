# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a backup describes itself."""

from __future__ import annotations

import json

import pytest
from backups_of_days import CHAINS, NOW, of_day

from ansible_collections.berth.kvm.plugins.module_utils.conductor import show_backup
from ansible_collections.berth.kvm.plugins.module_utils.model import backups
from ansible_collections.berth.kvm.plugins.module_utils.model.backups import Backup
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput


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
