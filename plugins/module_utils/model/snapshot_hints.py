# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What errors about the snapshots of an instance tell people to do."""

from __future__ import annotations

from typing import Sequence


def name_snapshot() -> str:
    """Which snapshot is meant."""
    return "Pass -e berth_snapshot=NAME; berth.kvm.snapshots lists those that there are"


def delete_one(name: str, snapshot: str) -> str:
    """There are as many as there may be, or they are in the way."""
    return "Delete what nobody needs of them, such as berth.kvm.delete_snapshot --limit %s -e berth_snapshot=%s" % (
        name,
        snapshot,
    )


def finish(name: str, snapshot: str) -> str:
    """A snapshot was begun and not finished."""
    return "Run berth.kvm.snapshot --limit %s -e berth_snapshot=%s again, which finishes it; then the same again" % (
        name,
        snapshot,
    )


def finish_revert(name: str, snapshot: str) -> str:
    """Some disks are those of the snapshot, others may not be."""
    return "Run berth.kvm.revert_snapshot --limit %s -e berth_snapshot=%s again, which finishes it" % (name, snapshot)


def delete_rest(name: str, snapshot: str) -> str:
    """A snapshot is not whole: its removal had begun, or somebody removed it from a disk."""
    return "Remove what is left of it with berth.kvm.delete_snapshot --limit %s -e berth_snapshot=%s" % (name, snapshot)


def stop_first(name: str) -> str:
    """A revert changes the disks below the guest."""
    return "Stop it with berth.kvm.stop --limit %s, revert, and start it again with berth.kvm.start --limit %s" % (
        name,
        name,
    )


def move_cold(name: str, snapshot: str) -> str:
    """QEMU copies only what the running guest sees."""
    return (
        "To keep them, berth.kvm.cold_migrate --limit %s takes them along. Or delete them first, such as "
        "berth.kvm.delete_snapshot --limit %s -e berth_snapshot=%s" % (name, name, snapshot)
    )


def make_independent(host: str, running: Sequence[str], off: Sequence[str]) -> str:
    """Disks of an adopted instance stand on other files. The commands are for a guest that runs, and one that is off."""
    ways = " && ".join(running), " && ".join(off)
    return "Make them independent on %s: %s while the guest runs, %s while it is off" % (host, *ways)
