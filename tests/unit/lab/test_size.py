# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes of lab hosts: for all, for one, and what is refused."""

from __future__ import annotations

import pytest
from labkit.size import BadSize, Size, sizes_for


def test_a_host_without_options_has_the_default_size():
    assert sizes_for(1, []) == {1: Size()}


def test_options_for_one_host_win_over_those_for_all():
    sizes = sizes_for(2, ["cpus=2,mem=2048", "2:cpus=8,cells=2"])
    assert (sizes[1].cpus, sizes[1].mem, sizes[1].cells) == (2, 2048, 1)
    assert (sizes[2].cpus, sizes[2].mem, sizes[2].cells) == (8, 2048, 2)


@pytest.mark.parametrize("text, size", [("512M", 512 << 20), ("8G", 8 << 30), ("2T", 2 << 40)])
def test_a_disk_has_its_unit(text, size):
    assert sizes_for(1, ["disk=" + text])[1].disk == size


@pytest.mark.parametrize(
    "argument, why",
    [
        ("cpu=2", "known options"),
        ("cpus", "known options"),
        ("cpus=", "whole number"),
        ("cpus=-1", "whole number"),
        ("cpus=0", "between"),
        ("cpus=4G", "whole number"),
        ("mem=512", "between"),
        ("cells=3", "divide"),
        ("cpus=6,threads=4", "divide"),
        ("huge=3000", "half"),
        ("disk=10M", "between"),
        ("2:cpus=2", "there are 1 hosts"),
    ],
)
def test_nonsense_is_refused_with_a_reason(argument, why):
    with pytest.raises(BadSize, match=why):
        sizes_for(1, [argument])
