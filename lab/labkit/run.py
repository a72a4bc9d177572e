# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running commands and looking at processes."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path


class LabError(Exception):
    """Something that the lab cannot do; the message is for the person at the keyboard."""


def run(*argv, check=True, **options):
    """Run a command quietly -> CompletedProcess with text output; a failure says what failed and why."""
    done = subprocess.run(
        [str(word) for word in argv],
        text=True,
        capture_output=True,
        stdin=options.pop("stdin", subprocess.DEVNULL),
        check=False,
        **options,
    )
    if check and done.returncode:
        raise LabError(
            "%s: exit status %d: %s" % (" ".join(map(str, argv)), done.returncode, (done.stderr or done.stdout).strip())
        )
    return done


def wait_for(condition, seconds, what):
    """Wait until condition() gives something true and return it; LabError after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise LabError("%s: not within %d s" % (what, seconds))
        time.sleep(0.02)


def environment_of(pid):
    """The environment that a process was started with, {} when it is gone or is not ours to read."""
    try:
        raw = Path("/proc/%d/environ" % pid).read_bytes()
    except OSError:
        return {}
    return dict(item.split("=", 1) for item in raw.decode(errors="replace").split("\0") if "=" in item)


def command_line_of(pid):
    try:
        return Path("/proc/%d/cmdline" % pid).read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def is_alive(pid):
    """A process that runs (a zombie does not)."""
    try:
        return Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children_of(pid):
    """The direct children of a process, found in /proc."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
        except OSError:
            continue  # it ended while we looked
    return found


def read_pid(path):
    """The number in a pid file, 0 when there is none."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0
