# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about guests whose memory somebody saved: see hints.py."""

from __future__ import annotations


def keep_or_drop_memory(name: str, host: str, uuid: str) -> str:
    """The copy of an instance that is to be set aside has its memory saved (virsh managedsave)."""
    return (
        "If this copy is right, run berth.kvm.keep_one for %s with this host as berth_keep_on: it stays with its memory. If its "
        "memory may be lost, on %s: virsh managedsave-remove %s; then run the same again" % (name, host, uuid)
    )


def restore_or_boot(name: str) -> str:
    """Somebody saved the guest's memory to a file of their own."""
    return (
        "Run virsh restore FILE on its host, with that file. Or boot it without its memory: berth.kvm.stop --limit %s, then "
        "berth.kvm.start --limit %s; never restore the file afterwards, it does not fit the disks any more"
        % (name, name)
    )
