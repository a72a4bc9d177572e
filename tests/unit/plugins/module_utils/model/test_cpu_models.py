# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The best CPU model that all hosts of a fleet have."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model.cpu_models import GENERATIONS, best_common


@pytest.mark.parametrize(
    ("lists", "best"),
    [
        ([["Haswell", "Skylake-Client", "EPYC"], ["Haswell", "Skylake-Client", "Icelake-Server"]], "Skylake-Client"),
        ([["Nehalem", "EPYC-Milan"], ["Nehalem", "Icelake-Server"]], "Nehalem"),
        ([["EPYC-Rome", "EPYC", "EPYC-v4"]], "EPYC-Rome"),
        ([["Haswell", "Haswell-noTSX-IBRS", "Haswell-IBRS", "Haswell-noTSX"]], "Haswell-IBRS"),
        ([["Skylake-Server-noTSX-IBRS", "Cascadelake-Server-noTSX"]], "Cascadelake-Server-noTSX"),
        ([["EPYC-v2", "EPYC-v10"]], "EPYC-v10"),
        ([["qemu64", "Haswellish", "486"]], None),
        ([["Nehalem"], ["Opteron_G3"]], None),
        ([["Nehalem"], []], None),
    ],
)
def test_the_newest_model_that_all_hosts_have_is_named(lists, best):
    assert best_common(lists) == best == best_common([list(reversed(each)) for each in lists])


def test_each_generation_is_listed_once():
    assert len(set(GENERATIONS)) == len(GENERATIONS)
