# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks and CDs that somebody added to the guest. It starts with them, but not if the file of one is gone."""

from __future__ import annotations

import os
from xml.etree import ElementTree

from ...model import disk_hints
from ...model.errors import BerthError
from ..errors import DiskChainChanged
from ..guest import domain
from . import disk_chain

DROPPED_IF_GONE = ("optional", "requisite")  # startupPolicy: the guest starts without that medium


def hint(host, record):
    """Return what to do about them where libvirt did not start the guest; None if there are none."""
    try:
        found = _found(host, record)
    except BerthError:
        return None
    return disk_hints.detach_attached(host.connection.getHostname(), _files(found), _commands(found)) if found else None


def check(host, record):
    """Raise DiskChainChanged if a running guest could not start again, since the file of such a disk is gone."""
    guest = domain.find(host.connection, record.uuid)
    text = domain.definitions(guest)[1] if guest is not None else None
    needed = _needed(text) if text else set()
    gone = [each for each in _found(host, record) if needed.intersection(each.files) and _is_gone(each.files[0])]
    if gone:
        name, files = host.connection.getHostname(), _files(gone)
        raise DiskChainChanged(
            "%s (%s) could not start again on %s: somebody added %s to it, and that is gone"
            % (record.name, record.uuid, name, " and ".join(files)),
            hint=disk_hints.detach_gone(name, files, _commands(gone)),
            instance=record.name,
            host=name,
            files=files,
        )


def _found(host, record):
    return [each for each in disk_chain.found_on(host, record) if each.kind == disk_chain.EXTRA and each.command]


def _files(found):
    return sorted({path for each in found for path in each.files})


def _commands(found):
    return [each.command for each in found]


def _needed(text):
    """Return the files without which the guest does not start."""
    sources = ElementTree.fromstring(text).iterfind("devices/disk/source")
    return {
        source.get("file") or source.get("dev")
        for source in sources
        if source.get("startupPolicy") not in DROPPED_IF_GONE
    }


def _is_gone(path):
    """Whether it certainly is: root may not look into each file system of a network."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return True
    except OSError:
        pass
    return False
