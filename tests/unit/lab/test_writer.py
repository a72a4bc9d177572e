# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guest's writer, built and run here: what it acknowledged must be found, what was damaged must be named."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent.parent.parent / "lab" / "guest" / "writer.c"
BLOCK, SLOTS = 4096, 1024

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="gcc is not installed")


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    program = tmp_path_factory.mktemp("writer") / "writer"
    subprocess.run(["gcc", "-O2", "-o", program, SOURCE], check=True)
    return program


@pytest.fixture
def written(writer, tmp_path):
    """A ring that the writer was killed on, and the number it had acknowledged -> (ring, number)."""
    ring, ack = tmp_path / "ring", tmp_path / "ack"
    process = subprocess.Popen([writer, "run", ring, ack, "10"], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not (ack.exists() and ack.read_text().strip() and int(ack.read_text()) >= 10):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return ring, int(ack.read_text())


def verify(writer, ring):
    return subprocess.run([writer, "verify", ring], capture_output=True, text=True, check=False).stdout.split()


def damage(ring, number):
    with open(ring, "r+b") as handle:
        handle.seek(number % SLOTS * BLOCK + 100)
        handle.write(b"damaged")


def test_all_that_was_acknowledged_is_found_intact(writer, written):
    ring, acknowledged = written
    verdict, last = verify(writer, ring)
    assert verdict == "ok" and acknowledged <= int(last) <= acknowledged + 1


def test_a_damaged_block_is_named(writer, written):
    ring, acknowledged = written
    damage(ring, 4)
    assert verify(writer, ring)[:2] == ["bad", "4"]


def test_a_lost_tail_shows_as_a_lower_number_than_was_acknowledged(writer, written):
    ring, acknowledged = written
    for number in range(acknowledged - 1, acknowledged + 2):
        damage(ring, number)
    assert int(verify(writer, ring)[1]) < acknowledged


def test_without_a_ring_there_is_no_verdict(writer, tmp_path):
    assert verify(writer, tmp_path / "missing") == ["none"]
