# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel and initrd of a guest that is booted directly. A move copies them with its disks, and needs no web server."""

from __future__ import annotations

import os

from .. import paths
from ..run import run
from . import image as images

LARGEST = 1 << 30  # bytes of each
SECTOR = 512
PARTS = ("kernel", "initrd")


def named(spec):
    """Return the parts that the image of a request has: kernel, or kernel and initrd."""
    return [part for part in PARTS if (spec.get("image") or {}).get(part)]


def build(pool_path, uuid, spec, settings):
    """Copy them from the host's image cache to beside the instance's disks."""
    for part in named(spec):
        source = dict(spec["image"][part], name="%s of %s" % (part, spec["image"].get("name")), disk_format="raw")
        cached = images.ensure(pool_path, dict(source, most_bytes=LARGEST), 0, settings)
        path = paths.instance(pool_path, uuid, part)
        temporary = path + ".tmp"
        paths.remove(temporary)
        run(["cp", "--reflink=auto", "--", cached["path"], temporary])
        # Disks are copied in whole sectors; a kernel ignores the padding.
        os.truncate(temporary, -(-os.path.getsize(temporary) // SECTOR) * SECTOR)
        os.chmod(temporary, 0o600)
        paths.publish(temporary, path)
