# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file system that becomes full, or read-only, at any write."""

from __future__ import annotations

import errno
import os

WRITING = os.O_WRONLY | os.O_CREAT
ERRORS = (errno.ENOSPC, errno.EROFS)


class FullDisk:
    """os, of which each call that writes fails from number ``at`` on, with the one error or the other; 0 is never."""

    def __init__(self):
        self.at = self.count = 0

    def _strike(self):
        self.count += 1
        if self.at and self.count >= self.at:
            number = ERRORS[self.at % 2]
            raise OSError(number, os.strerror(number))

    def open(self, path, flags, *rest, **more):
        if flags & WRITING:
            self._strike()
        return os.open(path, flags, *rest, **more)

    def fsync(self, _fd):
        self._strike()

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in ("write", "mkdir", "unlink", "rename"):
            return real

        def call(*arguments, **more):
            self._strike()
            return real(*arguments, **more)

        return call
