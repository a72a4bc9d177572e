# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that a running QEMU has open and libvirt knows nothing of.

A libvirtd that dies while it attaches a disk leaves such ones behind: QEMU has the file open, as "nodes" one on top of the
other, and the libvirtd that comes after can neither attach that file nor detach it.
"""

from __future__ import annotations

import json

from . import domain


def close(guest, path):
    """Have the QEMU of ``guest``, which libvirt says does not have the disk with the file ``path``, close that file. QEMU closes
    none that a device uses. -> (whether it closed something, whether it has the file open still)"""
    found = _ask(guest, "query-named-block-nodes", flat=True) or []
    left = had = [node["node-name"] for node in found if node.get("file") == path]
    for _layer in had:  # what another one lies on closes after that
        left = [name for name in left if _ask(guest, "blockdev-del", **{"node-name": name}) is None]
    return len(left) < len(had), bool(left)


def _ask(guest, command, **arguments):
    """What QEMU answers; None where it refuses, or cannot be asked."""
    text = domain.ask_qemu(guest, json.dumps({"execute": command, "arguments": arguments}))
    return json.loads(text or "{}").get("return")
