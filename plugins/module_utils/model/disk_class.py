# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which storage pools instances can use, and which resource class their disks count as: each file system of a host has
one."""

from __future__ import annotations

from typing import Dict, Optional

from .messages import Document

DISK = "DISK_GB"
DIRECTORIES = ("dir", "fs", "netfs")  # the types of storage pools that are directories: instances can use these


def disk_class(doc: Document, pool: Optional[str]) -> str:
    """The resource class that disks in a pool count as: DISK_GB on the file system of the host's own pool, as in Nova,
    DISK_GB:NAME on another, by the first of the pools there. Hosts that do not report pools have one for all."""
    own, pools = doc.get("pool"), doc.get("pools") or {}
    if own is None or pool in (None, own) or pool not in pools:
        return DISK
    storage = pools[pool].get("storage", pool)
    return DISK if storage == pools.get(own, {}).get("storage", own) else "%s:%s" % (DISK, storage)


def other_disks(doc: Document) -> Dict[str, Document]:
    """Return {resource class: one of its pools} for all file systems but that of the host's own pool."""
    found = {disk_class(doc, name): pool for name, pool in (doc.get("pools") or {}).items()}
    return {name: pool for name, pool in found.items() if name != DISK}
