# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about clones and images of instances: see hints.py."""

from __future__ import annotations


def name_clone() -> str:
    """Which instance is copied, and what the new one is called."""
    return "Pass -e berth_name=NAME and -e berth_new_name=NEW, of the instance that is copied and of the new one"


def name_another(source: str) -> str:
    """The name is that of another instance."""
    return "Pass another name: -e berth_name=%s -e berth_new_name=NAME" % source


def move_afterwards(name: str, source: str) -> str:
    """A clone was to be made on another host than that of its disks."""
    return (
        "Leave that host out, and move the clone afterwards: berth.kvm.migrate --limit %s. Or make it there, off, and restore a backup of"
        " %s into it: berth.kvm.create --limit %s -e berth_state=stopped, then berth.kvm.restore --limit %s -e berth_backup_of=%s"
        " -e berth_restore_discards=%s" % (name, source, name, name, source, name)
    )


def leave_group(name: str, source: str) -> str:
    """The server group of the clone has no place for it on the host of its source."""
    return (
        "Clone it without the group: berth.kvm.clone -e berth_name=%s -e berth_new_name=%s -e berth_server_group="
        % (source, name)
    )


def choose_larger_flavor() -> str:
    """The flavor of the clone has too small a disk."""
    return "Give the new instance a flavor with a root disk of that size, or leave berth_flavor out"


def name_its_disks() -> str:
    """The request of the clone lacks data disks."""
    return "Name them in berth_disks of the new instance, with at least their size"


def name_image() -> str:
    """What the new image is called."""
    return "Pass -e berth_new_image=NAME"


def name_another_image(path: str) -> str:
    """There is a file of that name, which may be in use as an image."""
    return "Pass another -e berth_new_image=NAME, or remove %s if no image is read from there any more" % path


def make_image_directory(host: str, path: str) -> str:
    """The directory for images is not there."""
    return "On %s, make or mount %s, and run the same again" % (host, path)


def share_image(host: str, path: str) -> str:
    """An image lies on one host."""
    text = "Other hosts need the file at the same path; or copy %s from %s to the controller, and say upload: in place of url:"
    return text % (path, host)


def finish_clone(name: str) -> str:
    """A clone was cut off, and something else than a create or a clone is to go on with it."""
    return "Run berth.kvm.create --limit %s, which finishes it" % name
