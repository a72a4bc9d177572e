# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watches a program that copies disks, and stops it if it cannot succeed: its other end is gone, it makes no progress,
or the run that asked for it has ended.
"""

from __future__ import annotations

import ipaddress
import re
import select
import socket
import struct
import subprocess
import time
from typing import Any, Callable, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from ...model import host_hints
from ...model.move_errors import RunEnded, TransferFailed
from ..run import ENVIRONMENT

# The established TCP connections of this host, from the kernel's table (proc_net_tcp.txt of Linux).
FILES = ("/proc/net/tcp", "/proc/net/tcp6")
ESTABLISHED = "01"
MOST_REPEATED = 5  # without an answer, 6 s at least: where some packets are lost, one of so many comes through


class Connection(NamedTuple):
    """``repeated``: how often the kernel has sent again what the other end has not acknowledged, since its last answer."""

    local_port: int
    address: str
    port: int
    repeated: int


def established(files: Sequence[str] = FILES) -> Iterator[Connection]:
    for path in files:
        try:
            with open(path, encoding="ascii") as stream:
                rows = [line.split() for line in stream][1:]
        except OSError:
            continue
        for row in rows:
            if row[3] == ESTABLISHED:
                address, _colon, port = row[2].partition(":")
                local_port = int(row[1].rpartition(":")[2], 16)
                yield Connection(local_port, _address(address), int(port, 16), int(row[6], 16))


def is_stuck(address: str, port: Optional[int] = None) -> bool:
    """Whether the other end acknowledges nothing of what this host sends to it, on that port or on any."""
    to_it = (each for each in established() if each.address == address and port in (None, each.port))
    return any(each.repeated >= MOST_REPEATED for each in to_it)


def _address(text: str) -> str:
    """The kernel prints an address as 32-bit numbers of this machine."""
    words = [struct.pack("=I", int(text[at : at + 8], 16)) for at in range(0, len(text), 8)]
    return str(ipaddress.ip_address(b"".join(words)))


LOOK_SECONDS = 10.0  # between two checks of the other end
GONE_SECONDS = (
    30.0  # without the other end: TCP alone would wait for a quarter of an hour, and the guest may be off meanwhile
)
STALLED_SECONDS = 600.0  # without progress: writing out a slow disk's cache silently takes minutes
KILL_SECONDS = 10.0  # in which a killed program ends, unless it hangs in its disk
ASKED_BY = 1  # the module's own output: ssh and sudo close it when the run that started the module has ended
PERCENT = re.compile(rb"\((\d+\.\d+)/100%\)")


class OtherEnd:
    """The target of a copy: raises TransferFailed if it has been gone for GONE_SECONDS, or takes new connections and
    nothing of what is sent to it, as where large packets are lost on the way."""

    def __init__(self, target: Mapping[str, Any]):
        self.address = target["host"], int(target["port"])
        self.looked = self.heard = time.monotonic()
        self.took: Optional[float] = None

    def check(self) -> None:
        now = time.monotonic()
        if now - self.looked < LOOK_SECONDS:
            return
        self.looked = now
        if not self._answers():
            self.took = None  # after a time in which nothing came through, TCP waits for as long again
            self._check_since(self.heard, "has not answered on port %d", None)
            return
        self.heard = now
        if self.took is None or not is_stuck(*self.address):
            self.took = now
        hint = host_hints.compare_mtu(self.address[0])
        self._check_since(self.took, "answers on port %d, but has acknowledged nothing", hint)

    def _check_since(self, then: float, what: str, hint: Optional[str]) -> None:
        if self.looked - then >= GONE_SECONDS:
            raise TransferFailed(("%s " + what + " for %d s") % (*self.address, self.looked - then), hint=hint)

    def _answers(self) -> bool:
        try:
            socket.create_connection(self.address, timeout=LOOK_SECONDS / 2).close()
        except OSError:
            return False
        return True


class Advance:
    """The progress of a copy: raises TransferFailed if ``measure()`` has not changed for STALLED_SECONDS."""

    def __init__(self, measure: Callable[[], object]):
        self.measure = measure
        self.last, self.since = measure(), time.monotonic()

    def check(self) -> None:
        now = self.measure()
        if now != self.last:
            self.last, self.since = now, time.monotonic()
        elif time.monotonic() - self.since >= STALLED_SECONDS:
            raise TransferFailed("the copy has made no progress for %d s" % STALLED_SECONDS)


class Asked:
    """The run that waits for the copy: raises RunEnded once it has ended."""

    def check(self) -> None:
        poll = select.poll()
        poll.register(ASKED_BY, 0)
        if any(event & (select.POLLERR | select.POLLHUP) for _fd, event in poll.poll(0)):
            raise RunEnded("the run that asked for it has ended")


class Limit:
    """Raises TransferFailed once a copy has taken so many seconds."""

    def __init__(self, seconds: float):
        self.seconds, self.since = seconds, time.monotonic()

    def check(self) -> None:
        if time.monotonic() - self.since >= self.seconds:
            raise TransferFailed("the copy has not ended within %d s" % self.seconds)


def spent(pid: int) -> Optional[List[bytes]]:
    """Return the CPU time of a process, which stands still while a disk or a connection hangs; None if it is gone."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            return file.read(4096).rpartition(b")")[2].split()[11:13]
    except OSError:
        return None


def follow(
    command: List[str],
    pid_file: Optional[str],
    target: Optional[Mapping[str, Any]],
    on_percent: Optional[Callable[[float], None]] = None,
    also: Iterable[Any] = (),
) -> None:
    """Run a program that another run may have to kill by its ``pid_file``, and follow the percentage that it prints. Without a
    ``target`` it copies on this host alone. ``also``: more checks, each with a check() that raises TransferFailed to end it."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENVIRONMENT
    )
    if pid_file:
        with open(pid_file, "w") as file:
            file.write(str(process.pid))
    try:
        checks = [Asked(), Advance(lambda: spent(process.pid)), *([OtherEnd(target)] if target else []), *also]
        tail = _read(process.stdout, checks, on_percent)
    except BaseException:
        end(process)
        raise
    finally:
        process.stdout.close()
    if process.wait():
        message = re.sub(rb"\s*\(\d+\.\d+/100%\)\s*", b"", tail).decode("utf-8", "replace").strip()[-400:]
        raise failed("%s %s failed with %d: %s" % (command[0], command[1], process.returncode, message))


def failed(message: str) -> TransferFailed:
    """The error of a copy, in the words of the program that made it."""
    return TransferFailed(message, hint=host_hints.make_room_in_pool() if host_hints.FULL in message else None)


def end(process: subprocess.Popen) -> None:
    process.kill()
    try:
        process.wait(timeout=KILL_SECONDS)
    except subprocess.TimeoutExpired:
        pass  # it hangs in the kernel, and ends when that returns


def _read(output: Any, checks: Iterable[Any], on_percent: Optional[Callable[[float], None]]) -> bytes:
    tail = b""
    while True:
        for check in checks:
            check.check()
        if not select.select([output], [], [], min(LOOK_SECONDS, 1.0))[0]:
            continue
        part = output.read1(4096)
        if not part:
            return tail
        tail = (tail + part)[-2000:]
        found = PERCENT.findall(part)
        if found and on_percent:
            on_percent(float(found[-1]))
