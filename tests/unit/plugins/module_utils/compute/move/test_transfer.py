# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import socket

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.move import transfer
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import TransferFailed

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"


@pytest.fixture
def port():
    """A port of this machine with somebody behind it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def impatient(monkeypatch, tmp_path):
    monkeypatch.setattr(transfer, "RUN_DIR", str(tmp_path))
    monkeypatch.setattr(transfer, "LOOK", 0.05)
    monkeypatch.setattr(transfer, "GONE", 0.1)
    os.mkdir(transfer.directory(UUID))


def target(server):
    return {"host": "127.0.0.1", "port": server.getsockname()[1]}


def watch(script, there, on_percent=None):
    transfer._watch(UUID, ["sh", "-c", script], there, on_percent)


def test_a_copy_whose_other_end_is_gone_is_ended_and_does_not_wait_for_tcp(impatient, port):
    there = target(port)
    port.close()
    with pytest.raises(TransferFailed, match="127.0.0.1 has not answered on port"):
        watch("exec sleep 60", there)
    with open(transfer.directory(UUID, "send.pid")) as file:
        assert not os.path.exists("/proc/" + file.read())


def test_a_copy_that_says_nothing_for_long_goes_on_while_its_other_end_is_there(impatient, port):
    watch("sleep 0.5", target(port))


def test_what_a_copy_says_is_followed_and_why_it_failed_is_told(impatient, port):
    seen = []
    with pytest.raises(TransferFailed, match="failed with 3: no space left"):
        watch("printf '  (12.00/100%%)\\r'; sleep 0.1; echo no space left; exit 3", target(port), seen.append)
    assert seen == [12.0]
