# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that a running QEMU has open although libvirt does not know of them.

A libvirtd that dies while it attaches a disk leaves them behind: QEMU has the file open, as "nodes" on top of each
other, and the next libvirtd can neither attach that file nor detach it.
"""

from __future__ import annotations

import json

from . import domain


def close(guest, path):
    """Make the QEMU of ``guest`` close the file ``path``, of which libvirt says that the guest does not have it as a
    disk. QEMU closes none that a device uses. Return (whether it closed something, whether the file is still open)."""
    found = _ask(guest, "query-named-block-nodes", flat=True) or []
    left = before = [node["node-name"] for node in found if node.get("file") == path]
    for _layer in before:  # a node closes after those on top of it
        left = [name for name in left if _ask(guest, "blockdev-del", **{"node-name": name}) is None]
    return len(left) < len(before), bool(left)


def _ask(guest, command, **arguments):
    """Return QEMU's answer, or None if it refuses or cannot be asked."""
    text = domain.ask_qemu(guest, json.dumps({"execute": command, "arguments": arguments}))
    return json.loads(text or "{}").get("return")
