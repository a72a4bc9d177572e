# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about the disks of a move: see hints.py."""

from __future__ import annotations


def merge_with_guest_off(name: str, uuid: str, host: str) -> str:
    """QEMU did not write out the disk into which the kept one was merged."""
    return (
        "Run berth.kvm.confirm_resize for %s again. If this comes again, shut the guest down on %s (virsh shutdown %s) "
        "and run it once more: then no QEMU is needed; afterwards run berth.kvm.start"
    ) % (name, host, uuid)
