# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about guests whose memory somebody saved: see hints.py."""

from __future__ import annotations


def keep_or_drop_memory(name: str, host: str, uuid: str) -> str:
    """The copy of an instance that is to be set aside has its memory saved (virsh managedsave)."""
    return (
        "If this is the right copy, run berth.kvm.keep_one for %s with this host as berth_keep_on: the copy stays, "
        "with its memory. If nobody needs that memory, run on %s: virsh managedsave-remove %s; then run the same again"
        % (name, host, uuid)
    )


def give_up_move(name: str) -> str:
    """Somebody saved the guest's memory (virsh managedsave) between two runs of a move."""
    return "berth.kvm.revert_resize --limit %s gives the move up and resumes %s; then run the same again" % (name, name)


def restore_or_boot(name: str) -> str:
    """Somebody saved the guest's memory to a file of their own."""
    return (
        "Run virsh restore FILE on its host, with that file. Or boot the guest without that memory: berth.kvm.stop "
        "--limit %s, then berth.kvm.start --limit %s. Never restore the file afterwards: it no longer fits the disks"
        % (name, name)
    )
