# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about shelved instances: see hints.py."""

from __future__ import annotations


def shelve_again(name: str) -> str:
    """The instance was changed between its backup and its shelving."""
    return "Run berth.kvm.shelve for %s again, which makes another backup" % name


def make_room_to_unshelve(name: str, host: str) -> str:
    """The host that keeps the record of a shelved instance has no room for it now."""
    return (
        "Make room on %s, for example with berth.kvm.migrate for another instance there, then run berth.kvm.unshelve for %s again"
        % (
            host,
            name,
        )
    )


def mount_its_backup(host: str, to: str) -> str:
    """A host that was chosen for a shelved instance does not see the directory of its backup."""
    return "On %s, mount the storage for backups at %s and run the same again" % (host, to)
