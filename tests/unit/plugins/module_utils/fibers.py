# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several runs in one process, of which one goes on at a time. A run stops after each call to a host, and within it before
each lock, read and write of the host's code: there, others go on. Locks are the real ones."""

from __future__ import annotations

import contextlib
import threading

from ansible_collections.berth.kvm.plugins.module_utils.compute import durable, lock
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.modules import rescan

FILES = ("read", "read_in", "write", "write_in", "remove")
TURNS = 500  # of a run that waits for a lock until it gives up: others had as much time


class Ended(BaseException):
    """The test is over."""


class Fiber:
    """A run, which is a generator."""

    current = None  # who goes on now

    def __init__(self, steps):
        self.steps, self.values, self.error, self.is_over = steps, {}, None, False
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def advance(self):
        """Go on to the next stop. Return whether there is one; raise what the run raised."""
        Fiber.current = self
        self._go.release()
        self._stopped.acquire()
        Fiber.current = None
        if self.error:
            raise self.error
        return not self.is_over

    def end(self):
        if not self.is_over:
            self.is_over = True
            self._go.release()
            self._thread.join()

    def stop(self):
        self._stopped.release()
        self._go.acquire()
        if self.is_over:
            raise Ended

    def _run(self):
        self._go.acquire()
        try:
            while not self.is_over and next(self.steps, self) is not self:
                self.stop()
        except Ended:
            pass
        except BaseException as error:  # it is raised where the run was to go on
            self.error = error
        self.is_over = True
        self._stopped.release()


def stop():
    if Fiber.current:
        Fiber.current.stop()


class Alone:
    """A run with no other one beside it. It stops after each call to a host."""

    def __init__(self, steps):
        self.steps = steps

    def advance(self):
        return next(self.steps, self) is not self

    def end(self):
        self.steps.close()


class OfEach:
    """An attribute that each run has a value of its own of, as processes have."""

    def __init__(self, name, make):
        self.name, self.make = name, make

    def __get__(self, owner, _kind=None):
        values, key = self._place(owner)
        return values.setdefault(key, self.make())

    def __set__(self, owner, value):
        values, key = self._place(owner)
        values[key] = value

    def _place(self, owner):
        return (Fiber.current.values, (id(owner), self.name)) if Fiber.current else (owner.__dict__, self.name)


def let_stop(monkeypatch):
    """Runs stop in the code of hosts from now on."""
    for name in FILES:
        monkeypatch.setattr(durable, name, _after_a_stop(getattr(durable, name)))
    monkeypatch.setattr(lock, "acquire", _waiting(lock.acquire))
    monkeypatch.setattr(Store, "_held", OfEach("_held", dict), raising=False)


class Unlocked:
    """A host's store with no lock around anything."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    def host_lock(self):
        return contextlib.nullcontext()


def exchange_unlocked(monkeypatch):
    """Break the rule that a host reads and notes under one lock."""
    plain = rescan.exchange
    monkeypatch.setattr(rescan, "exchange", lambda store, *args, **more: plain(Unlocked(store), *args, **more))


def _after_a_stop(plain):
    def stopping(*args, **more):
        stop()
        return plain(*args, **more)

    return stopping


def _waiting(plain):
    """A run that has to wait lets others go on instead."""

    def acquire(open_directory, name, timeout, action, busy):
        for _turn in range(TURNS if Fiber.current and timeout else 1):
            stop()
            try:
                return plain(
                    open_directory, name, 0 if Fiber.current else timeout, action, lambda who: _Taken(busy(who))
                )
            except _Taken as taken:
                error = taken.args[0]
        raise error

    return acquire


class _Taken(Exception):
    """Somebody else has the lock."""
