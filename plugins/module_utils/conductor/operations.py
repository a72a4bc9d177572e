# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operations on existing instances that move nothing: which fail if the instance does not exist, and which report how
it differs from the inventory. Which ones a lock does not stop is in locks.py."""

from __future__ import annotations

OPERATIONS = (
    "console", "delete", "keep_one", "lock", "reboot", "recover", "recover_record", "remove_set_aside", "start", "stop", "unlock",
    "update_disks",
)  # fmt: skip
# Of these a run without a selection is about the whole inventory: they read, or bring it to what it says. All others stop,
# move, change or delete guests.
WITHOUT_SELECTION = ("confirm_due", "console", "recover")
# Deleting, stopping or recovering an instance that does not exist has nothing to do.
NEED_ONE = ("console", "keep_one", "lock", "reboot", "recover_record", "start", "unlock", "update_disks")
# What they leave as it is they report: how the instance differs from the inventory.
TELL_DIFFERENCES = ("console", "keep_one", "lock", "reboot", "recover", "start", "stop", "unlock", "update_disks")
