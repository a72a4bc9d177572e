# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work on several items in parallel, each in a process of its own, so that a crash of one does not end the others."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time

PART = 1 << 16


def run(work, items, at_once, seconds):
    """Return what ``work(item)`` returns for each item, as JSON represents it; None if its process died or had not
    ended after ``seconds``.

    The processes are forks: call this before libvirt is opened, because its threads and connections do not survive a
    fork.
    """
    end = time.monotonic() + seconds
    waiting, running, outputs = list(enumerate(items)), {}, [b""] * len(items)
    while waiting or running:
        while waiting and len(running) < at_once:
            at, item = waiting.pop(0)
            process, pipe = _start(work, item)
            running[pipe] = (at, process)
        ready = select.select(list(running), [], [], max(0, end - time.monotonic()))[0]
        if not ready:
            for _at, process in running.values():
                os.kill(process, signal.SIGKILL)  # without waiting: one that hangs in the kernel stays
            break
        for pipe in ready:
            at, process = running[pipe]
            part = os.read(pipe, PART)
            outputs[at] += part
            if not part:
                os.close(pipe)
                os.waitpid(process, 0)
                del running[pipe]
    return [_read(text) for text in outputs]


def _start(work, item):
    reading, writing = os.pipe()
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        _live(work, item, writing)
    os.close(writing)
    return process, reading


def _live(work, item, writing):
    try:
        with open(writing, "w", encoding="utf-8") as pipe:
            pipe.write(json.dumps(work(item)))
    finally:
        os._exit(0)  # skips everything that the run does at exit


def _read(text):
    try:
        return json.loads(text.decode("utf-8"))
    except ValueError:
        return None
