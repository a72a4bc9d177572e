# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs programs of the host: by an argument list, without a shell, with limits of time, CPU time and memory."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess

from ..model import host_hints
from .errors import BuildFailed

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PRLIMIT = "/usr/bin/prlimit"
# Limits for qemu-img: an image that makes it compute or grow for ever is stopped
TIMEOUT = 600  # s, by the clock and of CPU time
# How a program ends at its limit: killed by the kernel, or by itself when an allocation failed.
OVER = (-signal.SIGXCPU, -signal.SIGABRT, -signal.SIGTRAP, -signal.SIGSEGV)
NO_THREAD = "qemu_thread_create"  # QEMU aborts, too, if the host lets it start no more threads: not the image's fault
MEMORY = 2 << 30  # bytes of address space; a conversion with all its threads stays below 1 GiB
# Threads share two pools of memory. By default glibc reserves 64 MiB for each thread, on hosts with many CPUs for so many
# that a conversion exceeds the limit with any image.
FEW_POOLS = {"MALLOC_ARENA_MAX": "2"}
ENVIRONMENT = {"PATH": PATH, "LC_ALL": "C"}  # of every program


def run(arguments, timeout=TIMEOUT, error=BuildFailed, over=None, memory=MEMORY):
    """Return the program's output as text. Raise ``error`` if it is missing, fails or takes longer than ``timeout``
    seconds.

    Raise ``over`` (default ``error``) if it exceeds its CPU time or ``memory`` (bytes).
    """
    name = os.path.basename(arguments[0])
    try:
        done = subprocess.run(
            _limited(arguments, timeout, memory),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=timeout,
            env={**ENVIRONMENT, **FEW_POOLS},
            check=False,
        )
    except FileNotFoundError as missing:
        raise error(
            "%s is not installed on the host" % os.path.basename(missing.filename), hint=host_hints.install_package()
        )
    except subprocess.TimeoutExpired:
        raise error("%s did not end within %d s" % (name, timeout))
    stderr = done.stderr.decode("utf-8", "replace").strip()[-500:]
    if NO_THREAD not in stderr and (done.returncode in OVER or "annot allocate memory" in stderr):
        raise (over or error)(
            "%s ended with %d: it took more CPU time or memory than it may (%s). It wrote: %s"
            % (name, done.returncode, _limits(timeout, memory), stderr or "nothing")
        )
    if done.returncode:
        raise error("%s failed with %d: %s" % (name, done.returncode, stderr))
    return done.stdout.decode("utf-8", "replace")


def _limits(timeout, memory):
    cpu = "" if timeout is None else "%d s, " % timeout
    return cpu + "%d MiB" % (memory >> 20)


def _limited(arguments, timeout, memory):
    """Return the call through prlimit (util-linux): setting limits in a child of a process with threads is not safe."""
    if shutil.which(arguments[0], path=PATH) is None:
        raise FileNotFoundError(errno.ENOENT, "not there", arguments[0])
    cpu = [] if timeout is None else ["--cpu=%d:%d" % (timeout, timeout + 5)]
    return [PRLIMIT, "--as=%d" % memory, "--core=0", *cpu, "--", *arguments]
