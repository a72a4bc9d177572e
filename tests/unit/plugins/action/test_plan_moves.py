# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbooks of moves are given, as text too: AWX surveys send nothing else."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.action.plan_moves import who_locked


@pytest.mark.parametrize("value", [None, False, "", "false", "False", "no", "0", 0])
def test_what_means_no_does_not_lock(value):
    """R10."""
    assert who_locked({"berth_locked": value}) is None


@pytest.mark.parametrize("value", [True, "true", "yes", "the backup team"])
def test_what_else_locks_and_may_say_who(value):
    assert who_locked({"berth_locked": value}) == value
