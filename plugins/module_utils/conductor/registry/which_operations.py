# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done over a registry in an engine, and of which hosts a run asks what they have: an operation at its host asks the
hosts of its instances, which the registry knows. What is in no list here plans, only looks, removes a host, or ends a doubt of
which copy is right, and asks all."""

from __future__ import annotations

from ..operations import OPERATIONS

# The words are those that the playbooks have for what they do: an operation, or else a decision.
CREATES = ("clone", "place", "show_places", "take_over", "unshelve")
MOVES = ("cold_migrate", "confirm", "confirm_due", "live_migrate", "migrate", "resize", "revert")
ENDS = ("delete", "leave")
# What takes, or gives back, what others may want.
CHANGES = ("adopt", "rename", "update", "update_disks")
AT_THE_HOST = (
    "backup", "backups", "console", "delete_backup", "delete_snapshot", "image_from_instance", "lock", "pause", "reboot",
    "rebuild", "recover", "rescue", "restore", "resume", "revert_snapshot", "shelve", "snapshot", "snapshots", "start", "stop",
    "suspend", "unlock", "unpause", "unrescue",
)  # fmt: skip


def asks_where(operation: str) -> bool:
    """Whether the registry is asked where the instances are."""
    return operation in (*CREATES, *MOVES, *ENDS, *CHANGES, *AT_THE_HOST)


def asks_all(operation: str) -> bool:
    """Whether all hosts are asked nevertheless: the registry does not know where a guest is that is no instance yet, and which hosts
    see the disks of a lost one."""
    return operation in ("adopt", "take_over")


def may_start(operation: str) -> bool:
    """Whether a guest runs afterwards that may not have run before."""
    return operation == "recover" or operation in OPERATIONS and OPERATIONS[operation].runs


def waits(operation: str) -> bool:
    """Whether nothing is done while the registry gives no answer or is closed. Else all hosts are asked where the instances are."""
    return operation in (*CREATES, *MOVES, *ENDS, *CHANGES)
