# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model.unknown_names import did_you_mean


@pytest.mark.parametrize(
    "name, known, hint",
    [
        ("smal", ["small", "large"], "Did you mean small?"),
        ("SMALL", ["small", "large"], "Did you mean small?"),
        ("x", ["small", "large"], "Known: large, small"),
        ("x", [str(number) for number in range(10, 20)], "Known: 10, 11, 12, 13, 14, 15, 16, 17 and 2 more"),
        ("x", [], "No flavors are defined: do so where every instance inherits it, such as in group_vars/all.yml"),
    ],
)
def test_the_nearest_name_is_told_or_all_of_a_few(name, known, hint):
    assert did_you_mean(name, known, "flavor") == hint
