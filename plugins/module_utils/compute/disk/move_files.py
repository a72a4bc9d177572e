# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of the files that a move writes beside a disk until it has ended."""

from __future__ import annotations

KEPT, INCOMING, SCRATCH, MERGING = ".pre-", ".incoming-", ".scratch", ".merging"


def kept(path, op):
    """Return the name of the old disk in the move ``op``, until it is confirmed or reverted."""
    return path + KEPT + op


def merging(kept):
    """Return the name of the note that the kept disk is being merged into the new one."""
    return kept + MERGING


def incoming(path, attempt):
    """Return the name of an arriving disk. Each attempt has its own, so a late writer of an older one does no harm."""
    return "%s%s%d" % (path, INCOMING, attempt)


def scratch(path):
    """Return the name of the file that a backup of the disk writes."""
    return path + SCRATCH


def is_incoming(name):
    return INCOMING in name


def is_kept_or_incoming(name):
    return KEPT in name or INCOMING in name


def is_of_move(name):
    return is_kept_or_incoming(name) or SCRATCH in name
