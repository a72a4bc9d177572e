# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is refused about disks and volumes says which value was given."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model import data_disks, volumes
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import CannotResizeDisk

BOOTS = {"volumes": [{"name": "os", "size_gb": 10, "boot_index": 0, "slot": 0}]}


def test_a_volume_or_disk_that_would_shrink_is_refused_with_both_sizes():
    volumes.check_size("db", 3, 3)
    with pytest.raises(CannotResizeDisk, match="volume db has 3 GiB, and its size_gb is 1 now.*at least 3 GiB"):
        volumes.check_size("db", 3, 1)
    with pytest.raises(CannotResizeDisk, match="data disk logs has 3 GiB, and its size_gb is 1 now"):
        data_disks.merged([{"name": "logs", "size_gb": 3}], [{"name": "logs", "size_gb": 1}])


@pytest.mark.parametrize("wanted", [{"os": 1}, {"os": None}, {}])
def test_another_boot_volume_than_at_the_creation_is_refused_with_the_indexes_that_were_given(wanted):
    entries = [{"name": name, "size_gb": 10, "boot_index": index} for name, index in wanted.items()]
    with pytest.raises(InvalidInput) as told:
        volumes.check_boot_stays("web1", BOOTS, entries)
    assert "berth_volumes: %r is not valid (volume os with boot_index 0" % wanted in str(told.value)


@pytest.mark.parametrize("slots", [(0, 0), (0, volumes.MOST), (0, -1), (0, True), (0, None)])
def test_each_volume_has_a_slot_of_its_own(slots):
    """C26: the slot decides the name of its device in the guest."""
    spec = {"volumes": [{"name": "v%d" % at, "size_gb": 1, "slot": slot} for at, slot in enumerate(slots)]}
    with pytest.raises(InvalidInput) as told:
        volumes.check(spec)
    assert told.value.field == "volumes[1].slot"
