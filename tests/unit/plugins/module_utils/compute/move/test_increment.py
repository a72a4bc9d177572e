# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What copying a running disk leaves behind where it was cut off (I5)."""

from __future__ import annotations

from ansible_collections.berth.kvm.plugins.module_utils.compute.move import increment


def test_the_scratch_file_of_a_copy_that_a_power_cut_ended_is_removed_and_the_disks_stay(tmp_path):
    disks = [("root.qcow2", "qcow2"), ("ephemeral.qcow2", "qcow2"), ("seed.iso", "raw")]
    for name in ("root.qcow2", "root.qcow2.scratch", "ephemeral.qcow2", "seed.iso", "seed.iso.scratch"):
        (tmp_path / name).touch()
    increment.discard_scratch([{"path": str(tmp_path / name), "format": form} for name, form in disks])
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["ephemeral.qcow2", "root.qcow2", "seed.iso", "seed.iso.scratch"]
