# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds several instances on this host in parallel. Each build has the result and the reply of a run of its own."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time

from ...model.errors import BerthError
from ..backup import clone
from ..host import settings
from ..host.host import Host
from . import power
from .instance import Instance
from .take_over import take_over, would_take_over

PART = 1 << 16


def run_side_by_side(work, items, at_once, seconds):
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


LIMIT = 5 * 3600  # s: a hung build ends before the controller gives up the host, so that the others are reported
ENDED = {"failed": True, "msg": "the process that built it ended before it was done, or took longer than 5 hours"}


def build(wanted, dry):
    """Return [{uuid, reply}] for ``wanted``, each one of the builds of module build_instances. ``dry``: change nothing."""
    at_once = settings.load().max_concurrent_builds
    replies = run_side_by_side(lambda each: _build(each, dry), wanted, at_once, LIMIT)
    return [{"uuid": each["uuid"], "reply": reply or ENDED} for each, reply in zip(wanted, replies)]


def _build(wanted, dry):
    try:
        instance = Instance(Host.here(wanted["state"]), wanted["uuid"], timeout=wanted["timeout"])
        instance.clone = clone.build
        bring = _taken_over if wanted["state"] == "taken_over" else power.present
        return power.outcome_of(instance, wanted, dry, lambda: bring(instance, wanted, dry))
    except BerthError as error:
        return {"failed": True, **error.to_result()}
    except Exception as error:  # pylint: disable=broad-exception-caught
        # like a module that crashed: it ends only this build
        return {"failed": True, "msg": "%s: %s" % (type(error).__name__, error)}


def _taken_over(instance, wanted, dry):
    asked = instance, wanted["token"], wanted["disks_of"]
    if dry:
        return would_take_over(*asked)
    return take_over(*asked, wanted["power_state"] == power.OFF, wanted.get("evidence") or "")
