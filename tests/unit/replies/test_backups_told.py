# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host tells of backups and snapshots is whole and harmless before people read it."""

from __future__ import annotations

import good
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import show_backup
from ansible_collections.berth.kvm.plugins.module_utils.model import reply
from ansible_collections.berth.kvm.plugins.module_utils.model.reply import InvalidReply

EVIL = "\x1b[2Jowned\u202e\n{{ x }}"


def checked(**changes):
    """The backups of a host's reply whose first one has these ``changes``; None: it lacks that part."""
    arguments, answer = good.instance_backup("h1")
    whole, *others = answer["instance"]["backups"]
    changed = {part: value for part, value in {**whole, **changes}.items() if value is not None or part == "previous"}
    answer["instance"]["backups"] = [changed, *others]
    return reply.check("instance_backup", answer, "h1", arguments)["instance"]["backups"]


def told(**changes):
    """What people read of them."""
    return "".join(show_backup.lines("backups", "web1", "h1", checked(**changes)))


@pytest.mark.parametrize("part", ["bytes", "of", "frozen", "why"])
def test_a_backup_of_which_a_part_is_missing_is_refused(part):
    with pytest.raises(InvalidReply):
        checked(**{part: None})


def test_of_a_backup_that_cannot_be_read_only_the_reason_is_told():
    assert "20260102T030405Z is none: no manifest" in told(kind=None, faults=["no manifest"])


@pytest.mark.parametrize("part", ["of", "why", "faults"])
def test_what_a_backup_says_is_cleaned(part):
    said = told(**{part: EVIL if part == "of" else [EVIL]})
    assert "owned" in said and not {"\x1b", "\u202e", "\n"} & set(said) and "{{" not in said


@pytest.mark.parametrize("part", ["id", "previous", "kind"])
def test_what_names_a_backup_is_no_other_text(part):
    with pytest.raises(InvalidReply):
        told(**{part: EVIL})


@pytest.mark.parametrize("part", ["name", "made_at", "taken", "disks"])
def test_what_a_snapshot_is_called_is_plain(part):
    """A name becomes part of a command that people are told."""
    arguments, answer = good.instance_info("h1")
    snapshot = answer["instances"][0]["snapshots"][0]
    assert show_backup.snapshot_lines({"web1": [snapshot]})
    snapshot[part] = [EVIL] if part == "disks" else EVIL
    with pytest.raises(InvalidReply):
        reply.check("instance_info", answer, "h1", arguments)
