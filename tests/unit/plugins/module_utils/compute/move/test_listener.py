# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The port of a copy and its key do not outlive the copy (I5, I10)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.move import listener, transfer, watchdog

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """A port with its key and the process behind it, and limits that a test can wait for -> (server, process)."""
    monkeypatch.setattr(transfer, "RUN_DIR", str(tmp_path / "berth" / "moves"))
    monkeypatch.setattr(listener, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(listener, "FIRST_SECONDS", 0.3)
    transfer.write_key(UUID, "a" * 64)
    process = subprocess.Popen(["sh", "-c", "sleep 60; : %s" % UUID])
    with open(transfer.directory(UUID, "root.pid"), "w") as file:
        file.write(str(process.pid))
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server, process
    process.kill()
    process.wait()


def watching(server, quiet=0.3):
    told = dict(listener.to_guard(UUID, [{"port": server.getsockname()[1]}], 0), quiet=quiet)
    thread = threading.Thread(target=listener.guard, args=(told,), daemon=True)
    thread.start()
    return thread


def is_closed(process):
    return not os.path.exists(transfer.directory(UUID)) and process.wait(5) is not None


def test_a_port_to_which_nobody_comes_is_closed_with_its_key(opened):
    server, process = opened
    thread = watching(server)
    thread.join(5)
    assert not thread.is_alive() and is_closed(process)


def test_a_port_is_open_while_somebody_is_connected_and_closed_when_he_has_been_gone_for_too_long(opened):
    server, process = opened
    client = socket.create_connection(server.getsockname())
    thread = watching(server)
    time.sleep(0.8)
    assert thread.is_alive() and os.path.exists(transfer.directory(UUID, "keys.psk"))
    client.close()
    server.accept()[0].close()
    thread.join(5)
    assert not thread.is_alive() and is_closed(process)


def test_a_port_waits_for_its_first_client_for_as_long_as_it_is_told(opened):
    server, _process = opened
    told = listener.to_guard(UUID, [{"port": server.getsockname()[1]}], 0, first=60)
    thread = threading.Thread(target=listener.guard, args=(told,), daemon=True)
    thread.start()
    time.sleep(0.8)
    assert thread.is_alive()
    transfer.close(UUID)
    thread.join(5)
    assert not thread.is_alive()


def test_the_guests_shutdown_between_two_copies_is_waited_for(opened):
    server, _process = opened
    client = socket.create_connection(server.getsockname())
    thread = watching(server, quiet=60)
    time.sleep(0.2)
    client.close()
    server.accept()[0].close()
    time.sleep(0.5)
    assert thread.is_alive()
    assert listener.to_guard(UUID, [], 90)["quiet"] == listener.QUIET_SECONDS + 90
    transfer.close(UUID)
    thread.join(5)
    assert not thread.is_alive(), "it ends with the copy"


def test_the_port_of_a_later_copy_is_left_alone(opened, monkeypatch):
    server, _process = opened
    looked, has_client = threading.Event(), listener.has_client
    monkeypatch.setattr(listener, "has_client", lambda ports: looked.set() or has_client(ports))
    monkeypatch.setattr(listener, "FIRST_SECONDS", 60)
    thread = watching(server)
    assert looked.wait(5), "it knows which copy it watches"
    os.unlink(transfer.directory(UUID, "root.pid"))
    transfer.close(UUID)
    transfer.write_key(UUID, "b" * 64)
    thread.join(5)
    assert not thread.is_alive() and os.path.exists(transfer.directory(UUID, "keys.psk"))


def test_one_who_is_connected_and_sends_nothing_for_too_long_is_as_good_as_gone(opened, monkeypatch):
    """A host that lost its power says no goodbye: the connection stays for ever."""
    monkeypatch.setattr(watchdog, "STALLED_SECONDS", 0.5)
    server, process = opened
    with socket.create_connection(server.getsockname()):
        thread = watching(server, quiet=60)
        thread.join(5)
        assert not thread.is_alive() and is_closed(process)


def test_a_copy_that_comes_on_keeps_its_port(opened, monkeypatch):
    monkeypatch.setattr(watchdog, "STALLED_SECONDS", 0.5)
    monkeypatch.setattr(transfer, "worked", lambda uuid: time.monotonic())
    server, _process = opened
    with socket.create_connection(server.getsockname()):
        thread = watching(server, quiet=60)
        time.sleep(1.2)
        assert thread.is_alive()
        transfer.close(UUID)
        thread.join(5)


def test_a_port_and_its_key_go_when_the_next_disk_cannot_be_received(opened, tmp_path, monkeypatch):
    """The listener guards them only from the end of the step on."""
    served = []

    def serve(uuid, disk, _path, _address):
        if disk["name"] == "data":
            raise transfer.TransferFailed("no port could be opened")
        served.append(subprocess.Popen(["sh", "-c", "sleep 60; : %s" % uuid]))
        with open(transfer.directory(uuid, "root.pid"), "w") as file:
            file.write(str(served[0].pid))
        return 49216

    monkeypatch.setattr(transfer, "serve", serve)
    disks = [{"name": name, "path": str(tmp_path / name), "format": "raw", "size": 0} for name in ("root", "data")]
    with pytest.raises(transfer.TransferFailed):
        transfer.open_targets(UUID, disks, "b" * 64, "127.0.0.1", 1)
    assert is_closed(served[0])


def test_a_program_that_is_just_being_started_is_ended_too(tmp_path):
    """Linux shows its command line only a moment after it shows the process."""
    pid_file = tmp_path / "send.pid"
    for _each in range(30):
        process = subprocess.Popen(["sh", "-c", "sleep 60; : %s" % UUID])
        try:
            pid_file.write_text(str(process.pid))
            transfer.kill(str(pid_file), UUID)
            assert process.wait(1) == -signal.SIGKILL
        finally:
            process.kill()
            process.wait()
