# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a service of ours in the system's directories, each written only if it is not as it should be."""

from __future__ import annotations

import os

from .. import durable

UNITS = "/etc/systemd/system"


class SystemFiles:
    """``changed``: the paths that were written, or with ``dry`` would be."""

    def __init__(self, dry=False, root="/"):
        """``root``: of the file system, for tests."""
        self.dry, self.root = dry, root
        self.changed = []

    def _path(self, path):
        return os.path.join(self.root, path.lstrip("/"))

    def _read(self, path):
        return self._bytes(path).decode()

    def _bytes(self, path):
        try:
            with open(self._path(path), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def _put(self, path, content, mode, group=None):
        """``content``: a text, or bytes; ``group``: the gid that may read it."""
        content = content if isinstance(content, bytes) else content.encode()
        if self._bytes(path) == content and os.stat(self._path(path)).st_mode & 0o777 == mode:
            return
        self.changed.append(path)
        if not self.dry:
            durable.make_directories(os.path.dirname(self._path(path)), 0o755)
            durable.write_at(self._path(path), content, mode, group)
