# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ends a process between any two changes that it makes: of a file, or by a call to libvirt."""

from __future__ import annotations

import os

import fake_domain
import fake_libvirt
from fibers import OfEach
from instance_case import Killed

FILES = ("mkdir", "link", "rename", "replace", "rmdir", "unlink", "remove")
CALLS = (
    (fake_domain.FakeDomain, ("createWithFlags", "destroy", "end", "undefineFlags", "setMetadata")),
    (fake_domain.FakeDomain, ("attachDeviceFlags", "detachDeviceFlags", "blockResize", "updateDeviceFlags")),
    (fake_domain.FakeDomain, ("suspend", "resume", "snapshotCreateXML")),
    (fake_libvirt.FakeConnection, ("defineXMLFlags", "restoreFlags")),
)


class Fuse:
    """``left``: changes until the process is killed; None: nobody kills it. What is dead changes nothing any more.
    Of two runs at once each has its own."""

    left = OfEach("left", lambda: None)

    def __init__(self, monkeypatch):
        for name in FILES:
            self._guard(monkeypatch, os, name)
        for owner, names in CALLS:
            for name in names:
                self._guard(monkeypatch, owner, name)

    def _guard(self, monkeypatch, owner, name):
        plain = getattr(owner, name)

        def guarded(*args, **more):
            self.burn()
            return plain(*args, **more)

        monkeypatch.setattr(owner, name, guarded)

    def burn(self):
        if self.left is None:
            return
        if self.left <= 0:
            raise Killed("between two changes")
        self.left -= 1
