# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about an update, a rebuild, a rescue, shelved instances, and the network between the two hosts of a move: see hints.py."""

from __future__ import annotations

from typing import Sequence


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


def unrescue_first(name: str) -> str:
    """The instance is rescued from another image."""
    return "berth.kvm.unrescue --limit %s ends that; then run the same again" % name


def rescued_and_off(name: str) -> str:
    """The guest of a rescued instance was shut down from inside."""
    return (
        "berth.kvm.unrescue --limit %s boots it from its own disk, and berth.kvm.rescue with the same image from that again"
        % name
    )


def go_back() -> str:
    """A run of create found a rescued instance, and left it so."""
    return "run berth.kvm.unrescue when its own disk boots again"


def name_rescue_image() -> str:
    """No image was named to boot from."""
    return "Add -e berth_rescue_image=NAME, an image of berth_images that boots by itself"


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


def open_ports(address: str) -> str:
    """QEMU of the source reaches no port of the destination, as behind a firewall."""
    return "Let the firewall of %s accept TCP ports 49152-49343 from the other hosts, and run the same again" % address


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
