# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps libvirt's host uuid, by which a host is known, where the firmware has none.

libvirt takes it from the firmware. Many ARM boards and containers have none there, and some PCs one that is all ones or
zeros: libvirt then makes up another uuid each time it starts, unless its configuration has one.
"""

from __future__ import annotations

import os
import re
import stat

from .. import durable
from ..guest import gate

CONFIGURATION = "/etc/libvirt"
FIRMWARE = "/sys/class/dmi/id/product_uuid"
SET = re.compile(r'^\s*(host_uuid\s*=|host_uuid_source\s*=\s*"machine-id")', re.MULTILINE)
LINE = 'host_uuid = "%s"  # berth.kvm: the firmware has none that libvirt takes\n'


def is_kept(uuid):
    """Whether libvirt will have this uuid after its next start. What somebody has set counts, whatever it is."""
    return _read(FIRMWARE).strip().lower() == uuid or all(SET.search(_read(path)) for path in _configurations())


def keep(uuid):
    """Write it to the configuration of each daemon that may be libvirt's for QEMU; it is in force already."""
    for path in map(os.path.realpath, _configurations()):  # a link stays one, as of who keeps /etc elsewhere
        text = _read(path)
        if not SET.search(text):
            mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.lexists(path) else 0o644
            durable.write_at(path, (LINE % uuid + text).encode("utf-8", "surrogateescape"), mode)


def _configurations():
    paths = [os.path.join(CONFIGURATION, daemon + ".conf") for daemon in gate.DAEMONS]
    return [path for path in paths if os.path.isfile(path)] or paths[:1]


def _read(path):
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""
