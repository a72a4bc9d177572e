# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rescue of an instance, in its request: {image, size_gb (GiB), hardware}. As long as it is there, the guest boots from a disk
that is made from this image, and has its own disks beside it. ``hardware``: that of the request from before."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from . import disk_formats
from .guest_settings import KEY as HARDWARE
from .messages import Document

KEY = "rescue"
FIELD = "berth_rescue_image"
SERIAL = "rescue_disk"  # of the disk; the name of a data disk or volume has no _
DISK, CDROM = "disk", "cdrom"


def of(spec: Mapping[str, Any]) -> Optional[Document]:
    return spec.get(KEY) or None


def total_gb(spec: Mapping[str, Any]) -> int:
    return int((of(spec) or {}).get("size_gb", 0))


def begun(spec: Document, image: Document, size_gb: int) -> Document:
    return {**spec, KEY: {"image": image, "size_gb": size_gb, "hardware": spec.get(HARDWARE)}}


def ended(spec: Document) -> Document:
    """Return the request as it was before, so that the guest finds its devices where they were."""
    before = (of(spec) or {}).get("hardware")
    left = {part: value for part, value in spec.items() if part not in (KEY, HARDWARE)}
    return {**left, HARDWARE: before} if before else left


def device(image: Mapping[str, Any]) -> str:
    """What the guest sees: a disk, or a CD."""
    by_format = CDROM if image.get("disk_format") == disk_formats.CD else DISK
    return str((image.get("properties") or {}).get("hw_rescue_device") or by_format)
