# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection to this host's libvirt, and calls to it with a time limit."""

from __future__ import annotations

import errno
import functools
import threading
import time

from ..model import hints, host_hints
from ..model.errors import BerthError

try:
    import libvirt
except ImportError:
    libvirt = None
try:
    import libvirt_qemu  # part of the binding if that was built for QEMU
except ImportError:
    libvirt_qemu = None

URI = "qemu:///system"
KEEPALIVE_INTERVAL = 5  # s
KEEPALIVE_COUNT = 3
# s; a little more than libvirt itself waits for another call to the same guest, so that its own error comes first
CALL_LIMIT = 45
AT_ONCE = 4  # calls; libvirt itself works on at most five of one connection

# Every call wakes libvirt's event loop, which would take the interpreter from the caller: with this pause, many calls
# take half the CPU time. It is far less than KEEPALIVE_INTERVAL.
EVENT_PAUSE = 0.1  # s

_events_at_once = threading.Event()
_event_loop = threading.Lock()
_event_loop_runs = False


class LibvirtUnavailable(BerthError):
    """libvirt on this host cannot be reached or used. Another host may work."""

    retryable = True
    host_fault = True


class LibvirtTimeout(BerthError):
    """libvirt on this host did not answer in time. The call may still be running there."""

    retryable = True
    host_fault = True


class Deadline:
    """A time limit, in seconds from now, over any number of calls.

    A thread cannot be stopped inside libvirt, so a late call stays behind in a daemon thread, which ends with the
    process.
    """

    def __init__(self, seconds):
        self._end = time.monotonic() + seconds

    def remaining(self):
        """Seconds left, never below 0."""
        return max(0.0, self._end - time.monotonic())

    def call(self, function, *args, what=None):
        """Return or raise what ``function(*args)`` does. At the deadline, raise LibvirtTimeout naming ``what``."""
        outcome = []

        def run():
            try:
                outcome.append((True, function(*args)))
            except BaseException as error:  # raised again in the caller's thread
                outcome.append((False, error))

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(self.remaining())
        if not outcome:
            what = what or getattr(function, "__name__", "the call")
            raise LibvirtTimeout("%s did not end in time" % what, hint=hints.restart_hung_libvirt(), call=what)
        good, value = outcome[0]
        if good:
            return value
        raise value


def each(function, items):
    """Return what ``function`` returns for each item; raise what it raises. libvirt is asked by several threads at a time:
    what it has to do for many calls takes half as long as one after the other."""
    waiting, results, errors = iter(list(enumerate(items))), {}, []

    def run():
        try:
            for at, item in waiting:
                results[at] = function(item)
        except BaseException as error:  # raised again in the caller's thread
            errors.append(error)

    threads = [threading.Thread(target=run, daemon=True) for _each in range(min(AT_ONCE, len(items)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[at] for at in range(len(items))]


class Bounded:
    """A libvirt object with a time limit, in seconds, on each call to it and to the objects that its calls return.

    ``unbounded`` is the object itself, for a call that may take any time.
    """

    def __init__(self, thing, seconds=CALL_LIMIT):
        self.unbounded, self._seconds = thing, seconds

    def __getattr__(self, name):
        found = getattr(self.unbounded, name)
        if not callable(found):
            return found

        def call(*args, **more):
            plain = [argument.unbounded if isinstance(argument, Bounded) else argument for argument in args]
            function = functools.partial(found, *plain, **more)
            return self._wrapped(Deadline(self._seconds).call(function, what="libvirt's %s" % name))

        return call

    def _wrapped(self, value):
        if isinstance(value, (list, tuple)):
            return type(value)(self._wrapped(part) for part in value)
        return Bounded(value, self._seconds) if type(value).__module__ == "libvirt" else value


def qemu_part():
    """Return the part of the binding that talks to a guest's QEMU directly, or None if it is missing."""
    return libvirt_qemu


def require_libvirt():
    """Return the binding. Raise LibvirtUnavailable if it is not installed for this Python."""
    if libvirt is None:
        raise LibvirtUnavailable(
            "the Python binding of libvirt is not installed for this interpreter",
            hint=host_hints.install_binding(),
        )
    return libvirt


def has_no_driver(error):
    """Whether this libvirt has no driver for what was asked: it is not built in, or its daemon is not installed or not switched
    on, so that libvirt finds no socket of it. A daemon that cannot be reached for another reason is there."""
    no_socket = error.get_error_code() == libvirt.VIR_ERR_SYSTEM_ERROR and error.get_int1() == errno.ENOENT
    return no_socket or error.get_error_code() == libvirt.VIR_ERR_NO_SUPPORT


def connect(timeout=10, uri=URI):
    """Return an open connection. Raise LibvirtUnavailable if libvirt refuses or is absent, LibvirtTimeout if silent."""
    library = require_libvirt()
    # libvirt prints every error to stderr unless told otherwise; here each one is an exception anyway
    library.registerErrorHandler(lambda context, error: None, None)
    _start_event_loop(library)
    try:
        connection = Deadline(timeout).call(library.open, uri, what="opening %s" % uri)
    except library.libvirtError as error:
        raise LibvirtUnavailable("libvirt at %s: %s" % (uri, error), hint=host_hints.start_libvirt(), uri=uri)
    try:
        connection.setKeepAlive(KEEPALIVE_INTERVAL, KEEPALIVE_COUNT)
    except library.libvirtError:
        pass  # drivers inside the process, such as test:///, have no keepalive
    return connection


def hear_at_once():
    """From now on, tell events without a pause: for whoever registers for some."""
    _events_at_once.set()


def _start_event_loop(library):
    """Keepalive needs an event loop, and libvirt wants it registered before the first connection."""
    global _event_loop_runs
    with _event_loop:
        if _event_loop_runs:
            return
        library.virEventRegisterDefaultImpl()

        def loop():
            while True:
                library.virEventRunDefaultImpl()
                _events_at_once.wait(EVENT_PAUSE)

        threading.Thread(target=loop, daemon=True, name="libvirt-events").start()
        _event_loop_runs = True
