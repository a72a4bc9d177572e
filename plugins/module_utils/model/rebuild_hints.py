# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about a rebuild: see hints.py."""

from __future__ import annotations


def discard_root(name: str) -> str:
    """A rebuild makes the root disk anew, and what is on it is lost."""
    return (
        "To keep that, run berth.kvm.backup for it first. To discard it, run the same again with -e berth_rebuild_discards=%s"
        % name
    )


def rebuild_to_follow(name: str) -> str:
    """The inventory names another image than the instance was made from."""
    return (
        "berth.kvm.rebuild --limit %s makes its root disk anew from that image, and loses what is on it, once -e says so"
        % name
    )


def update_first(name: str) -> str:
    """An instance cannot be rebuilt as the inventory says: other network interfaces, or an image that its place was not chosen for."""
    return (
        "Network interfaces follow the inventory with berth.kvm.update --limit %s. For another image, choose one that asks for the same; "
        "or create another instance with it beside this one" % name
    )
