# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Block jobs of a running guest, through libvirt."""

from __future__ import annotations

import time
from xml.etree import ElementTree

from ..connection import require_libvirt
from .errors import TransferFailed

POLL = 0.2


def target_of(domain, path):
    """The guest's name of the disk that is the file ``path``, such as vda."""
    for element in ElementTree.fromstring(domain.XMLDesc(0)).iterfind("devices/disk"):
        source = element.find("source")
        if source is not None and source.get("file") == path:
            return element.find("target").get("dev")
    raise TransferFailed("the running guest has no disk %s" % path)


def pull(domain, path, base):
    """Copy the layers between ``base`` (None: all) and the disk into it while the guest runs; a running job is
    awaited."""
    library = require_libvirt()
    target = target_of(domain, path)
    try:
        if not domain.blockJobInfo(target, 0):
            domain.blockRebase(target, base, 0, 0)
        while domain.blockJobInfo(target, 0):
            time.sleep(POLL)
    except library.libvirtError as error:
        raise TransferFailed("pulling the old layer of %s: %s" % (target, error))
