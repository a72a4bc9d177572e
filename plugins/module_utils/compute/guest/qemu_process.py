# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Linux says of a guest's QEMU process, without asking it: whether it is stopped, and which files it has open."""

from __future__ import annotations

import os

RUN_DIR = "/run/libvirt/qemu"


def is_stopped(name, run_dir):
    """Whether the QEMU of the domain of that name is stopped, as by SIGSTOP."""
    try:
        with open("/proc/%d/stat" % _pid(name, run_dir), encoding="utf-8", errors="replace") as file:
            return file.read(4096).rpartition(")")[2].split()[0] in ("T", "t")
    except (OSError, ValueError, IndexError):
        return False


def has_another(name, path, run_dir):
    """Whether the QEMU of the domain of that name, which has the disk ``path``, has another file open than the one that is
    there now. Neither its inode nor its path may be open: some network file systems change the inode."""
    try:
        there, files = os.stat(path), "/proc/%d/fd" % _pid(name, run_dir)
        opened = [os.path.join(files, number) for number in os.listdir(files)]
        return bool(opened) and not any(_is(each, there, os.path.realpath(path)) for each in opened)
    except (OSError, ValueError):
        return False


def _is(opened, there, path):
    try:
        return os.path.samestat(os.stat(opened), there) or os.readlink(opened) == path
    except OSError:
        return False  # closed meanwhile


def _pid(name, run_dir):
    with open(os.path.join(run_dir, name + ".pid"), encoding="ascii") as file:
        return int(file.read(20))
