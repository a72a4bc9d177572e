# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Direct kernel boot: the kernel and the initrd that an image names, and what conflicts with them.

An image has ``kernel`` and ``initrd`` as {url, checksum}, or names other images by Nova's kernel_id and ramdisk_id.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

from .errors import InvalidInput
from .guest_settings import GuestSettings
from .messages import Document

PROPERTIES = {"kernel": "kernel_id", "initrd": "ramdisk_id"}


def with_boot_files(image: Document, find: Callable[[Any, str], Document]) -> Document:
    """Return the image with kernel and initrd from the images that it names; ``find(name, field)`` looks those up."""
    found = dict(image)
    for part, name in PROPERTIES.items():
        other, field = image["properties"].get(name), "berth_images.%s.properties.%s" % (image["name"], name)
        if not other:
            continue
        if image[part]:
            raise InvalidInput(field, other, "%s of the image or %s, not both" % (part, name))
        named = find(other, field)
        if named["disk_format"] != "raw":
            raise InvalidInput(field, other, "an image of disk_format raw, not %s" % named["disk_format"])
        if not named["url"]:
            raise InvalidInput(field, other, "an image with a url, not one that is uploaded")
        found[part] = {"url": named["url"], "checksum": named["checksum"]}
    return found


def check(image: Mapping[str, Any], settings: GuestSettings) -> None:
    """Refuse an image with two ways to boot, and an initrd or a command line without a kernel."""
    path = "berth_images.%s" % image["name"]
    properties = image.get("properties") or {}
    if image.get("kernel"):
        if settings.get("firmware_type") == "uefi" or settings.secure_boot():
            raise InvalidInput(
                path + ".kernel", "with UEFI firmware", "a kernel that is booted directly, or UEFI, not both"
            )
        return
    if image.get("initrd"):
        raise InvalidInput(path + ".initrd", "without a kernel", "a kernel, because there is an initrd")
    if properties.get("os_command_line"):
        field = path + ".properties.os_command_line"
        raise InvalidInput(field, properties["os_command_line"], "a kernel, because there is a command line")
