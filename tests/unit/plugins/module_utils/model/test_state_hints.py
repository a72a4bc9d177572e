# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints that have somebody undefine a domain: virsh refuses one with snapshots or checkpoints unless it is told so."""

from __future__ import annotations

import re

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model import state_hints

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
HINTS = {
    "users": state_hints.undefine_users_of_disks("kvm1"),
    "rename": state_hints.rename_domain("kvm1", UUID),
    "copies": state_hints.undefine_copies(UUID, ["kvm1"], True),
    "delete": state_hints.delete_used_disks(),
}


@pytest.mark.parametrize("which", HINTS)
def test_a_hint_that_undefines_a_domain_does_so_with_its_snapshots_and_without_its_storage(which):
    command = re.search(r"virsh undefine \S+(?: --\S+)*", HINTS[which]).group()
    for flag in ("--snapshots-metadata", "--checkpoints-metadata", "--keep-nvram"):
        assert flag in command
    assert "storage" not in command and "--managed-save" not in command


@pytest.mark.parametrize("which", ["users", "rename", "copies"])
def test_that_a_saved_state_is_lost_is_said_and_no_command_discards_it_unasked(which):
    assert state_hints.SAVED in HINTS[which]
