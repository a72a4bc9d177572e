# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done over a registry in an engine, and of which hosts a run asks what they have: an operation at its host asks the
hosts of its instances, which the registry knows; what plans, only looks, or ends a doubt of which copy is right, asks all. What
is in no list here is refused: it would change what several hosts have without the registry."""

from __future__ import annotations

from ...model import registry_hints
from ...model.errors import BerthError
from ..operations import OPERATIONS

# The words are those that the playbooks have for what they do: an operation, or else a decision.
CREATES = ("clone", "place", "show_places")
MOVES = ("cold_migrate", "confirm", "confirm_due", "live_migrate", "migrate", "resize", "revert")
ENDS = ("delete", "leave")
# What takes, or gives back, what others may want.
CHANGES = ("adopt", "rename", "update", "update_disks")
AT_THE_HOST = (
    "backup", "backups", "console", "delete_backup", "delete_snapshot", "image_from_instance", "lock", "pause", "reboot",
    "rebuild", "recover", "rescue", "restore", "resume", "revert_snapshot", "snapshot", "snapshots", "start", "stop", "suspend",
    "unlock", "unpause", "unrescue",
)  # fmt: skip
# What these move, they move as one of MOVES.
PLANS = ("apply_plan", "maintain_host", "plan_maintenance", "rolling_reboot")
LOOKS = (
    "ask_fleet", "doctor", "events", "keep_one", "plan_fleet", "recover_record", "report", "show", "show_fleet", "show_volume",
)  # fmt: skip


class NotOverRegistry(BerthError):
    """This is not done over a registry yet. Nothing was changed."""


def check(operation: str) -> None:
    """Raise NotOverRegistry for what no list has."""
    if operation not in (*CREATES, *MOVES, *ENDS, *CHANGES, *AT_THE_HOST, *PLANS, *LOOKS):
        raise NotOverRegistry(
            "%s is not done over a registry yet, and the fleet of this run belongs to one" % operation,
            hint=registry_hints.go_back_to_hosts(),
        )


def asks_where(operation: str) -> bool:
    """Whether the registry is asked where the instances are."""
    return operation in (*CREATES, *MOVES, *ENDS, *CHANGES, *AT_THE_HOST)


def searches(operation: str) -> bool:
    """Whether all hosts are asked nonetheless: no registry knows where a guest is that is no instance yet."""
    return operation == "adopt"


def may_start(operation: str) -> bool:
    """Whether a guest runs afterwards that may not have run before."""
    return operation == "recover" or operation in OPERATIONS and OPERATIONS[operation].runs


def waits(operation: str) -> bool:
    """Whether nothing is done while the registry gives no answer or is closed. Else all hosts are asked where the instances are."""
    return operation in (*CREATES, *MOVES, *ENDS, *CHANGES)
