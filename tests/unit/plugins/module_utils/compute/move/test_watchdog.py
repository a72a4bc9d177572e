# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program that copies disks is followed, and ended where nothing can come of it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.move import watchdog
from ansible_collections.berth.kvm.plugins.module_utils.model import host_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import RunEnded, TransferFailed


@pytest.fixture
def port():
    """A port of this machine with somebody behind it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(watchdog, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(watchdog, "GONE_SECONDS", 0.1)


@pytest.fixture
def asker(monkeypatch):
    """The end of the module's output that the run which started it reads."""
    reading, writing = os.pipe()
    monkeypatch.setattr(watchdog, "ASKED_BY", writing)
    yield reading
    for fd in (reading, writing):
        with contextlib.suppress(OSError):
            os.close(fd)


@pytest.fixture
def pid_file(tmp_path):
    return tmp_path / "send.pid"


@pytest.fixture
def follow(pid_file):
    def run(script, there, on_percent=None):
        watchdog.follow(["sh", "-c", script], str(pid_file), there, on_percent)

    return run


@pytest.fixture
def sent(monkeypatch):
    """How often this host has sent again what ``there`` did not acknowledge."""

    def repeated(there, times):
        found = [watchdog.Connection(40000, there["host"], there["port"], times)]
        monkeypatch.setattr(watchdog, "established", lambda: iter(found))

    return repeated


def target(server):
    return {"host": "127.0.0.1", "port": server.getsockname()[1]}


def has_ended(pid_file):
    return not os.path.exists("/proc/" + pid_file.read_text())


def test_a_copy_whose_other_end_is_gone_is_ended_and_does_not_wait_for_tcp(follow, port, pid_file):
    there = target(port)
    port.close()
    with pytest.raises(TransferFailed, match="127.0.0.1 has not answered on port"):
        follow("exec sleep 60", there)
    assert has_ended(pid_file)


def test_a_copy_that_says_nothing_for_long_goes_on_while_its_other_end_is_there(follow, port):
    follow("sleep 0.5", target(port))


@pytest.mark.follows("compare_mtu")
def test_a_copy_of_which_nothing_arrives_is_ended_though_its_other_end_takes_connections(follow, port, pid_file, sent):
    """Small packets arrive and large ones do not: the MTU on the way is less than that of the hosts."""
    there = target(port)
    sent(there, watchdog.MOST_REPEATED)
    with pytest.raises(TransferFailed, match="127.0.0.1 answers on port .* has acknowledged nothing for") as ended:
        follow("exec sleep 60", there)
    assert has_ended(pid_file) and ended.value.hint == host_hints.compare_mtu("127.0.0.1")
    sent(there, watchdog.MOST_REPEATED - 1)
    follow("sleep 0.5", there)


def test_a_copy_goes_on_after_a_stall_of_the_network_although_tcp_waits_for_as_long_again(monkeypatch):
    """After 25 s without any packet, TCP sends again at 51 s only. New connections are taken meanwhile."""
    now = [0.0]
    monkeypatch.setattr(watchdog.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(watchdog, "LOOK_SECONDS", 10.0)
    monkeypatch.setattr(watchdog, "GONE_SECONDS", 30.0)
    end = watchdog.OtherEnd({"host": "127.0.0.1", "port": 1})
    monkeypatch.setattr(end, "_answers", lambda: now[0] > 25)
    monkeypatch.setattr(watchdog, "is_stuck", lambda *_: 6 < now[0] < 51)
    for at in (10, 20, 30, 40, 50, 60, 70):
        now[0] = float(at)
        end.check()
    monkeypatch.setattr(watchdog, "is_stuck", lambda *_: True)
    now[0] = 80.0
    end.check()
    now[0] = 100.0
    with pytest.raises(TransferFailed, match="has acknowledged nothing for 30 s"):
        end.check()


def test_what_does_not_arrive_elsewhere_ends_no_other_copy(follow, port, sent):
    there = target(port)
    sent({"host": "127.0.0.2", "port": there["port"]}, watchdog.MOST_REPEATED)
    follow("sleep 0.5", there)


def test_what_a_copy_says_is_followed_and_why_it_failed_is_told(follow, port):
    seen = []
    with pytest.raises(TransferFailed, match="failed with 3: no space left"):
        follow("printf '  (12.00/100%%)\\r'; sleep 0.1; echo no space left; exit 3", target(port), seen.append)
    assert seen == [12.0]


def test_a_copy_that_does_not_come_on_is_ended_though_its_other_end_is_there(follow, port, pid_file, monkeypatch):
    monkeypatch.setattr(watchdog, "STALLED_SECONDS", 0.3)
    with pytest.raises(TransferFailed, match="the copy has made no progress for"):
        follow("exec sleep 60", target(port))
    assert has_ended(pid_file)


def test_a_copy_that_works_and_says_nothing_comes_on(follow, port, monkeypatch):
    monkeypatch.setattr(watchdog, "STALLED_SECONDS", 0.5)
    work = "import time\nwhile time.process_time() < 1.5: sum(range(10000))"
    follow("exec %s -ISc '%s'" % (sys.executable, work), target(port))


@pytest.mark.parametrize(
    "part, work", [("user", lambda: sum(range(10000))), ("system", lambda: os.listdir("/proc/self"))]
)
def test_a_copy_comes_on_by_what_it_computes_and_by_what_the_kernel_does_for_it(part, work):
    def used():
        return int(watchdog.spent(os.getpid())[("user", "system").index(part)])

    before, began = used(), getattr(os.times(), part)
    while getattr(os.times(), part) < began + 0.1:
        work()
    assert (used() - before) / os.sysconf("SC_CLK_TCK") == pytest.approx(0.1, abs=0.05)


def test_a_real_copy_from_a_disk_that_hangs_is_ended(tmp_path, monkeypatch, pid_file, port):
    """As from a guest whose QEMU stopped: connections are taken, no answer comes."""
    monkeypatch.setattr(watchdog, "STALLED_SECONDS", 1.0)
    disk, address = tmp_path / "disk.raw", tmp_path / "nbd"
    disk.write_bytes(os.urandom(1 << 20) * 64)
    server = subprocess.Popen(["qemu-nbd", "--persistent", "--shared=4", "-f", "raw", "-k", str(address), str(disk)])
    try:
        while not address.exists():
            time.sleep(0.05)
        source = "driver=nbd,server.type=unix,server.path=%s" % address
        command = [
            "qemu-img",
            "convert",
            "-p",
            "-r",
            str(16 << 20),
            "--image-opts",
            source,
            "-O",
            "raw",
            str(tmp_path / "copy"),
        ]
        stop = threading.Timer(1.0, server.send_signal, [signal.SIGSTOP])
        stop.start()
        with pytest.raises(TransferFailed, match="the copy has made no progress for"):
            watchdog.follow(command, str(pid_file), target(port))
        assert has_ended(pid_file)
    finally:
        server.kill()
        server.wait()


def test_a_copy_that_nobody_waits_for_any_more_is_ended(follow, port, pid_file, asker):
    threading.Timer(0.3, os.close, [asker]).start()
    with pytest.raises(RunEnded):
        follow("exec sleep 60", target(port))
    assert has_ended(pid_file)


def test_who_is_still_there_is_not_taken_for_gone(follow, port, asker):
    follow("sleep 0.3", target(port))


@pytest.mark.follows("make_room_in_pool")
def test_a_copy_that_found_no_space_left_works_once_there_is_room(follow, port, tmp_path):
    script = "test -e %s || { echo qemu-img: No space left on device; exit 1; }" % (tmp_path / "room")
    with pytest.raises(TransferFailed) as caught:
        follow(script, target(port))
    assert caught.value.hint == host_hints.make_room_in_pool()
    (tmp_path / "room").touch()
    follow(script, target(port))
