# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person is told who has to choose one of two copies."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import copies


@pytest.mark.parametrize(
    "h1, h2, said",
    [
        (
            {"generation": [3, 1], "power_state": "running"},
            {"generation": [2, 7], "power_state": "shutdown"},
            "h1 (running, newer record of generation 3.1) and h2 (shutdown, older record of generation 2.7)",
        ),
        (
            {"generation": [2, 7]},
            {"generation": [2, 7]},
            "h1 (record of generation 2.7) and h2 (record of generation 2.7)",
        ),
        (
            {"generation": None, "power_state": "nostate"},
            {"generation": [1, 0]},
            "h1 (nostate, older record of generation 0.0) and h2 (newer record of generation 1.0)",
        ),
    ],
    ids=["newer", "equal", "not told"],
)
def test_the_state_and_the_age_of_each_copy_are_told(h1, h2, said):
    error = copies.owned_twice("web1", {"h2": h2, "h1": h1})
    assert error.message == "web1 is owned by " + said
    assert "berth.kvm.show --limit web1 -v has the history of each" in error.hint
