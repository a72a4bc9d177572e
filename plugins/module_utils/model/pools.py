# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage pools: which of them instances can use, which resource class their disks count as (each file system of a host
has its own), and where a pool's free bytes and what was promised of it part.
"""

from __future__ import annotations

from typing import Dict, Iterator, Optional, Tuple

from .messages import Document

# Which storage pools instances can use, and which resource class their disks count as: each file system of a host has
# one.
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


# Where a storage pool's free bytes and what was promised of it part: files of others fill it.
#
# Placement counts what was promised, as Nova's does, so that disks can be thin. But nothing is written without free
# bytes.
# MiB that an instance takes at once, however thin its disks are: its seed, the headers of its disks, their first blocks
LEAST_FREE_MB = 16
# of a pool, before facts and doctor warn: what a file system keeps for root, and a few cached images
MOST_OF_OTHERS_PERCENT = 10


def lacks_bytes(document: Document, pool: Optional[str]) -> Optional[str]:
    """Return why nothing can be written to the pool of a host (None: the host's own), or None if something can. A host that
    does not report its free bytes passes."""
    name = pool or document.get("pool")
    free = ((document.get("pools") or {}).get(name) or {}).get("free_mb")
    if free is None or free >= LEAST_FREE_MB:
        return None
    return "has %d MiB free in its storage pool %s, an instance needs %d at once" % (free, name, LEAST_FREE_MB)


def images(pool: Document) -> str:
    """Return how much of a pool its cached images take, in words; nothing where they take none."""
    taken = pool.get("images_mb", 0)
    return "; cached images take %d MiB" % taken if taken else ""


def overpromised(document: Document) -> Iterator[Tuple[str, str]]:
    """Yield (pool, sentence) for each pool of which others take more than MOST_OF_OTHERS_PERCENT beyond the host's reserve."""
    for name, pool in sorted((document.get("pools") or {}).items()):
        if pool.get("storage", name) != name or "owed_gb" not in pool:
            continue  # another pool stands for its file system
        if not pool["promised_gb"] and name != document.get("pool"):
            continue  # no instance uses it
        reserved = document.get("reserved_host_disk_gb", 0) if name == document.get("pool") else 0
        capacity, free, promised, owed = (pool[part] for part in ("capacity_gb", "free_gb", "promised_gb", "owed_gb"))
        others = capacity - free - (promised - owed)
        if others - reserved > capacity * MOST_OF_OTHERS_PERCENT / 100:
            yield (
                name,
                "of the %d GiB of storage pool %s %d are free, and disks that were promised there may still take %d: "
                "%d GiB are taken by what was promised to no instance (%d are reserved). Placement counts what was "
                "promised, so it gives away more than there is%s"
                % (capacity, name, free, owed, others, reserved, images(pool)),
            )
