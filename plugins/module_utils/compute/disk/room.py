# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a file system has room for whole copies of disks: if it were full, all guests with disks in it would stand still."""

from __future__ import annotations

import json
import os
from typing import Any, Iterable, List, Sequence, Tuple

from ...model import host_hints
from .. import paths
from ..run import run


def check(directory: str, what: str, copies: Iterable[Tuple[Sequence[str], str, str]], error: Any) -> None:
    """``copies``: (source, new file, its format) of each; what a killed run left at the new file makes room. Raise ``error``."""
    needed, free = 0, paths.free_bytes(directory)
    for source, made, made_form in copies:
        command = ["qemu-img", "measure", "-U", "--output=json", "-O", made_form, *source]
        needed += int(json.loads(run(command, error=error))["required"])
        free += os.stat(made).st_blocks * 512 if os.path.lexists(made) else 0
    if needed > free:
        raise error(
            "%s would take up to %d MiB, of %d MiB that are free in %s"
            % (what, -(-needed >> 20), free >> 20, directory),
            hint=host_hints.make_room_in_pool(directory),
        )


def of_file(path: str, form: str) -> List[str]:
    """The source that is a file, as qemu-img takes it."""
    return ["-f", form, "--", path]
