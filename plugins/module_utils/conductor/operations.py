# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one table of operations on existing instances that move nothing: what each asks of the hosts, what it needs, and its
words in the closing table."""

from __future__ import annotations

from typing import Dict, Mapping, NamedTuple, Optional, Tuple


class Words(NamedTuple):
    """The states of an operation in the table, and why nothing was changed."""

    done: str
    would: str
    unchanged: str


class Operation(NamedTuple):
    """``state``: what ``module`` is asked for on the host of the instance, or on all that hold a part of it if
    ``everywhere``; None if the operation has an order of its own. ``given``: argument -> the variables of the instance that
    may say it, the first that is there counts. ``found``: arguments that locating finds. ``needs_one``: it fails if there
    is no such instance, otherwise there is nothing to do. ``selected``: it needs a selection; others read, or bring the
    whole inventory to what it says. ``differences``: it reports how the instance differs from the inventory; ``repairs``:
    after a change the guest may be as its record says again. ``lockable``: a lock stops it. ``runs``: the guest runs afterwards,
    so no other host may have the instance."""

    words: Words
    state: Optional[str] = None
    given: Mapping[str, Tuple[str, ...]] = {}
    found: Tuple[str, ...] = ()
    module: str = "instance"
    everywhere: bool = False
    needs_one: bool = False
    selected: bool = True
    differences: bool = False
    repairs: bool = False
    lockable: bool = True
    runs: bool = False


SNAPSHOT = {"snapshot": ("berth_snapshot",)}
SHUTDOWN = {"shutdown_timeout": ("berth_shutdown_timeout",)}
BACKUPS = {"to": ("berth_backup_to",), "host": ("berth_backup_host",)}

OPERATIONS: Dict[str, Operation] = {
    "adopt": Operation(
        Words("adopted", "would be adopted", "is an instance already"),
        "adopted", found=("after", "name", "project_id", "flavor"), needs_one=True, selected=False,
    ),
    "backup": Operation(
        Words("backed up", "would be backed up", "was not backed up"), "made",
        {**BACKUPS, "full": ("berth_backup_full",), "chain": ("berth_backup_chain",), "keep": ("berth_backup_keep",),
         "keep_days": ("berth_backup_keep_days",)}, module="instance_backup", needs_one=True, lockable=False,
    ),
    "backups": Operation(
        Words("listed", "would be listed", "is shown above"), "listed",
        {**BACKUPS, "of": ("berth_backup_of",), "deep": ("berth_backup_deep",)},
        module="instance_backup", selected=False, lockable=False,
    ),
    "console": Operation(
        Words("shown", "would be shown", "is shown above"), module="instance_info",
        given={"console_lines": ("berth_console_lines",)}, needs_one=True, selected=False, differences=True, lockable=False,
    ),
    "delete": Operation(
        Words("deleted", "would be deleted", "is on no host"),
        "absent", {"changed_disks": ("delete_changed_disks", "berth_delete_changed_disks")}, ("after",), everywhere=True,
    ),
    "delete_backup": Operation(
        Words("backup deleted", "backup would be deleted", "has no such backup"), "deleted",
        {**BACKUPS, "backup": ("berth_backup",)}, module="instance_backup", needs_one=True,
    ),
    "delete_snapshot": Operation(
        Words("snapshot deleted", "snapshot would be deleted", "has no such snapshot"),
        "snapshot_deleted", SNAPSHOT, needs_one=True, differences=True,
    ),
    "image_from_instance": Operation(
        Words("image made", "image would be made", "has this image"),
        "image_made", {"to": ("berth_image_to",), "image": ("berth_new_image",)},
        module="instance_backup", needs_one=True, differences=True, lockable=False,
    ),
    "keep_one": Operation(
        Words("one copy kept", "one copy would be kept", "has one copy"),
        given=SHUTDOWN, needs_one=True, differences=True,
    ),
    "leave": Operation(
        Words("left to libvirt", "would be left to libvirt", "is on no host"), "left", found=("after",),
    ),
    "lock": Operation(
        Words("locked", "would be locked", "is locked already"),
        "locked", {"reason": ("berth_lock_reason",)}, needs_one=True, differences=True, lockable=False,
    ),
    "pause": Operation(
        Words("paused", "would be paused", "is paused already"), "paused", needs_one=True, differences=True
    ),
    "reboot": Operation(
        Words("rebooted", "would be rebooted", "was not rebooted"),
        "rebooted", {**SHUTDOWN, "reboot": ("berth_reboot",)}, needs_one=True, differences=True, repairs=True, runs=True,
    ),
    "rebuild": Operation(
        Words("rebuilt", "would be rebuilt", "did not run since it was rebuilt"),
        "rebuilt", {**SHUTDOWN, "discards_root": ("berth_rebuild_discards",)}, ("spec",), needs_one=True, differences=True,
        repairs=True, runs=True,
    ),
    "rescue": Operation(
        Words("rescued", "would be rescued", "is rescued already"),
        "rescued", SHUTDOWN, ("rescue_image",), needs_one=True, differences=True, repairs=True, runs=True,
    ),
    "recover": Operation(
        Words("started", "would be started", "runs, or is meant to be off"),
        "recovered", selected=False, differences=True, repairs=True, lockable=False,
    ),
    "recover_record": Operation(
        Words("record written", "record would be written", "has a record"),
        "recorded", found=("after", "moved_by"), needs_one=True,
    ),
    "remove_set_aside": Operation(
        Words("copy removed", "copy would be removed", "nothing was set aside there"), "removed", module="instance_copy"
    ),
    "rename": Operation(
        Words("renamed", "would be renamed", "has that name"), "renamed", found=("new_name",), needs_one=True,
    ),
    "restore": Operation(
        Words("restored", "would be restored", "was not restored"), "restored",
        {**BACKUPS, "of": ("berth_backup_of",), "backup": ("berth_backup",), "discards": ("berth_restore_discards",)},
        module="instance_backup", needs_one=True, differences=True,
    ),
    "resume": Operation(
        Words("resumed", "would be resumed", "runs already"),
        "resumed", needs_one=True, differences=True, repairs=True, runs=True,
    ),
    "revert_snapshot": Operation(
        Words("reverted to the snapshot", "would be reverted to the snapshot", "was reverted to it already"),
        "snapshot_reverted", SNAPSHOT, needs_one=True, differences=True, runs=True,
    ),
    "snapshot": Operation(
        Words("snapshot made", "snapshot would be made", "has this snapshot"),
        "snapshotted", {**SNAPSHOT, "snapshot_memory": ("berth_snapshot_memory",)}, needs_one=True, differences=True,
    ),
    "snapshots": Operation(
        Words("shown", "would be shown", "is shown above"), module="instance_info", selected=False, differences=True,
        lockable=False,
    ),
    "shelve": Operation(
        Words("shelved", "would be shelved", "is shelved already"),
        "shelved", {**BACKUPS, **SHUTDOWN}, needs_one=True,
    ),
    "start": Operation(
        Words("started", "would be started", "runs already"),
        "started", needs_one=True, differences=True, repairs=True, runs=True,
    ),
    "stop": Operation(Words("stopped", "would be stopped", "is off already"), "stopped", SHUTDOWN, differences=True),
    "suspend": Operation(
        Words("suspended", "would be suspended", "is suspended already"), "suspended", needs_one=True, differences=True
    ),
    "unlock": Operation(
        Words("unlocked", "would be unlocked", "is not locked"),
        "unlocked", everywhere=True, needs_one=True, differences=True, lockable=False,
    ),
    "unpause": Operation(
        Words("unpaused", "would be unpaused", "runs already"),
        "unpaused", needs_one=True, differences=True, repairs=True, runs=True,
    ),
    "unrescue": Operation(
        Words("unrescued", "would be unrescued", "is not rescued"),
        "unrescued", SHUTDOWN, needs_one=True, differences=True, repairs=True, runs=True,
    ),
    "unshelve": Operation(
        Words("unshelved", "would be unshelved", "is not shelved"),
        "unshelved", needs_one=True, differences=True, repairs=True, runs=True,
    ),
    "update": Operation(
        Words("updated", "would be updated", "is as the inventory says"),
        "updated", found=("disks", "volumes", "spec", "discards"), needs_one=True, differences=True, repairs=True, runs=True,
    ),
    "update_disks": Operation(
        Words("disks updated", "disks would be updated", "has these data disks"),
        "disks_updated", found=("disks", "volumes"), needs_one=True, differences=True, repairs=True, runs=True,
    ),
}  # fmt: skip


# The playbooks that are not called like their operation.
PLAYBOOKS = {
    "confirm": "confirm_resize",
    "keep_one": "keep_one_copy",
    "recover": "start_after_outage",
    "recover_record": "restore_record",
    "revert": "revert_resize",
}


def needs_selection(operation: str) -> bool:
    """Also of an operation that moves instances: all but confirm_due stop, move, change or delete guests."""
    return OPERATIONS[operation].selected if operation in OPERATIONS else operation != "confirm_due"
