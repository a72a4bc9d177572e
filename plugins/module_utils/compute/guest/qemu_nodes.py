# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files and connections that a running QEMU has open, as "nodes" on top of each other, and that libvirt does not close.

A libvirtd that dies while it attaches a disk or migrates a guest leaves them behind. The next libvirtd can neither
attach that file nor detach it, and refuses to migrate that guest.
"""

from __future__ import annotations

import json
import re

from ...model.safe_text import clean
from ..errors import SnapshotFailed
from . import domain

OF_A_MIGRATION = re.compile(r"migration-.+-(storage|format)\Z")  # libvirt's names of the destination's disks


def close(guest, path):
    """Make the QEMU of ``guest`` close the file ``path``, of which libvirt says that the guest does not have it as a
    disk. QEMU closes none that a device uses. Return (whether it closed something, whether the file is still open)."""
    return _close(guest, lambda node: node.get("file") == path)


def close_those_of_a_migration(guest):
    """Make the QEMU of ``guest`` close its connections to a destination's disks. QEMU closes none that a job uses.
    Return whether it closed something."""
    return _close(guest, lambda node: OF_A_MIGRATION.match(node["node-name"]))[0]


def break_migration_off(guest):
    """Make the QEMU of ``guest`` cut its connections to a destination's disks, so that the copying fails. By itself it
    waits for a host that lost its power for as long as TCP does, a quarter of an hour."""
    found = _ask(guest, "query-yank") or []
    cut = [each for each in found if OF_A_MIGRATION.match(each.get("node-name") or "")]
    if cut:
        _ask(guest, "yank", instances=cut)


def unlimit_copies(guest):
    """Make the QEMU of ``guest`` copy disks as fast as it can. libvirt itself changes no disk's rate during a migration."""
    for job in _ask(guest, "query-block-jobs") or []:
        if job.get("type") == "mirror":
            _ask(guest, "block-job-set-speed", device=job["device"], speed=0)


def write_out(guest, path):
    """Make the QEMU of ``guest`` write to the storage what it holds in memory of the file ``path``. Return whether it
    says that it did: it answers with a text, which is empty unless something failed."""
    flush = ["qemu-io %s flush" % node["node-name"] for node in _nodes(guest, path)]
    answers = [_ask(guest, "human-monitor-command", **{"command-line": command}) for command in flush]
    return bool(answers) and not any(answer is None or answer.strip() for answer in answers)


def bitmaps(guest, path):
    """Return {name: (node, whether it has recorded all writes since it began)} of the bitmaps in the qcow2 file ``path``."""
    return {
        bitmap["name"]: (
            node["node-name"],
            bool(bitmap.get("persistent") and bitmap.get("recording")) and not bitmap.get("inconsistent"),
        )
        for node in _nodes(guest, path)
        if node.get("drv") == "qcow2"
        for bitmap in node.get("dirty-bitmaps") or ()
    }


def remove_bitmap(guest, node, name):
    _ask(guest, "block-dirty-bitmap-remove", node=node, name=name)


def snapshot(guest, files, tag):
    """Make a snapshot inside each of the qcow2 ``files`` of the running guest, all at one moment or none. Raise
    SnapshotFailed."""
    actions = [
        {"type": "blockdev-snapshot-internal-sync", "data": {"device": _disk_node(guest, path), "name": tag}}
        for path in files
    ]
    _order(guest, "transaction", actions=actions)


def delete_snapshot(guest, path, tag):
    """Delete it from the file ``path`` of the running guest. Raise SnapshotFailed."""
    _order(guest, "blockdev-snapshot-delete-internal-sync", device=_disk_node(guest, path), name=tag)


def _disk_node(guest, path):
    names = [node["node-name"] for node in _nodes(guest, path) if node.get("drv") == "qcow2"]
    if not names:
        raise SnapshotFailed("QEMU does not have %s open" % path)
    return names[0]


def _order(guest, command, **arguments):
    answer = _answer(guest, command, arguments)
    if "return" not in answer:
        raise SnapshotFailed("QEMU refuses: %s" % clean(str((answer.get("error") or {}).get("desc", "no answer")), 300))


def _nodes(guest, path):
    """Return what QEMU tells of its nodes of the file ``path``."""
    return [node for node in _ask(guest, "query-named-block-nodes", flat=True) or [] if node.get("file") == path]


def _close(guest, is_meant):
    found = _ask(guest, "query-named-block-nodes", flat=True) or []
    left = before = [node["node-name"] for node in found if is_meant(node)]
    for _layer in before:  # a node closes after those on top of it
        left = [name for name in left if _ask(guest, "blockdev-del", **{"node-name": name}) is None]
    return len(left) < len(before), bool(left)


def _ask(guest, command, **arguments):
    """Return QEMU's answer, or None if it refuses or cannot be asked."""
    return _answer(guest, command, arguments).get("return")


def _answer(guest, command, arguments):
    text = domain.ask_qemu(guest, json.dumps({"execute": command, "arguments": arguments}))
    return json.loads(text or "{}")
