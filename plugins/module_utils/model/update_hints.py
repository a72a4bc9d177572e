# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people are told to do about an instance that is not as the inventory says, and that an update brings there."""

from __future__ import annotations

from typing import Sequence


def update_to_follow(name: str) -> str:
    """The inventory differs in something that an existing instance can be given."""
    return "Run berth.kvm.update --limit %s" % name


def stop_and_update(name: str) -> str:
    """A running guest did not take or release a network interface."""
    return "Run berth.kvm.stop --limit %s, then berth.kvm.update and berth.kvm.start with the same selection" % name


def stop_and_resize(name: str) -> str:
    """A running guest did not take CPUs or memory."""
    return (
        "To resize it while it is off: berth.kvm.stop --limit %s, then berth.kvm.resize with the same selection" % name
    )


def discard(name: str, disks: Sequence[str]) -> str:
    """The inventory does not name data disks of an instance any more. They stay until a person gives them up by their names."""
    return "To give up what is on %s and remove it, run berth.kvm.update --limit %s -e berth_update_discards=%s" % (
        " and ".join(disks),
        name,
        ",".join(disks),
    )
