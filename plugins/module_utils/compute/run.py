# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of the host: called by an argument list, without a shell, within a time limit."""

from __future__ import annotations

import os
import subprocess

from ..model import hints
from .errors import BuildFailed

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# qemu-img gets no more than this: an image that makes it compute or grow for ever is stopped
TIMEOUT = 600


def run(arguments, timeout=TIMEOUT, error=BuildFailed):
    """The program's output as text; ``error`` where it is missing, fails or takes longer than ``timeout`` seconds."""
    name = os.path.basename(arguments[0])
    try:
        done = subprocess.run(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=timeout,
            env={"PATH": PATH, "LC_ALL": "C"},
            check=False,
        )
    except FileNotFoundError:
        raise error("%s is not installed on the host" % name, hint=hints.install_package())
    except subprocess.TimeoutExpired:
        raise error("%s did not end within %d s" % (name, timeout))
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()[-500:]
        raise error("%s failed with %d: %s" % (name, done.returncode, said))
    return done.stdout.decode("utf-8", "replace")
