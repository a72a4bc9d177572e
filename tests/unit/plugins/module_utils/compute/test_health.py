# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host knows of a guest that nobody logs in to."""

from __future__ import annotations

import os
from pathlib import Path

import fake_libvirt
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection, paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import health

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
CHANNEL = "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'%s/></channel>"
XML = "<domain><name>u</name><uuid>" + UUID + "</uuid><devices>%s</devices></domain>"
PANIC = """\
[    1.841213] VFS: Unable to mount root fs on unknown-block(0,0)\r
[    1.842001] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)\r
[    1.843012] CPU: 0 PID: 1 Comm: swapper/0 Not tainted 6.1.0-13-amd64 #1\r
[    1.849951]  dump_stack_lvl+0x44/0x5c\r
[    1.861003] ---[ end Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0) ]---\r
"""
REBOOT = "[   12.000001] Rebooting in 10 seconds..\r\n"
BOOT = "[    0.000000] Linux version 6.1.0-13-amd64\r\n[    0.201010] pid_max: default\r\n"
LOGIN = "\r\nDebian GNU/Linux 12 web1 ttyS0\r\n\r\nweb1 login: "


def answer(said):
    if isinstance(said, BaseException):
        raise said
    return said


class Guest(fake_libvirt.FakeDomain):
    """``time``: what its agent says; an exception is what libvirt says instead."""

    time = None

    def getTime(self, _flags=0):  # noqa: N802 -- libvirt's own name
        return answer(self.time)


@pytest.fixture
def guest(monkeypatch, tmp_path):
    """One that runs, with no agent that is connected, and says nothing."""
    monkeypatch.setattr(connection, "libvirt", fake_libvirt.library())
    monkeypatch.setattr(paths, "CONSOLE_DIRECTORY", str(tmp_path))
    libvirt = fake_libvirt.FakeConnection(str(tmp_path), str(tmp_path))
    libvirt.domains[UUID] = Guest(libvirt, XML % CHANNEL % "")
    libvirt.domains[UUID].now = fake_libvirt.RUNNING
    return libvirt.domains[UUID]


def state(guest):
    return health.look(guest.connection, UUID)["state"]


def says(text):
    Path(paths.console_log(UUID)).write_bytes(text.encode())


def connected(guest, time):
    guest.xml, guest.time = XML % CHANNEL % " state='connected'", time


def test_a_guest_of_which_nothing_is_known_is_said_not_to_have_been_looked_at(guest):
    assert state(guest) == "not looked at"
    says("\r\n")
    assert state(guest) == "not looked at"


def test_a_guest_whose_kernel_panicked_has_crashed_and_its_last_line_is_told(guest):
    says(LOGIN + PANIC)
    found = health.look(guest.connection, UUID)
    assert found["state"] == "crashed" and "end Kernel panic - not syncing: VFS" in found["seen"]


@pytest.mark.parametrize(
    "after", [BOOT, LOGIN, REBOOT, REBOOT + BOOT + LOGIN], ids=["boot", "login", "reboot", "another life"]
)
def test_a_guest_that_went_on_after_a_panic_has_not_crashed(guest, after):
    says(PANIC + after)
    assert state(guest) == ("up" if after.endswith(LOGIN) else "no panic seen")


def test_a_panic_that_nothing_but_the_kernel_followed_is_the_guests_end(guest):
    says(BOOT + PANIC + "[   30.110000] clocksource: Long readout interval\r\n\r\n")
    assert state(guest) == "crashed"


def test_the_end_of_a_console_log_is_read_and_no_more_of_it(guest, monkeypatch):
    monkeypatch.setattr(health, "TAIL", 2000)
    says(PANIC + BOOT * 100)
    assert state(guest) == "no panic seen"
    says(BOOT * 100 + PANIC)
    assert state(guest) == "crashed"
    assert len(health.end_of(paths.console_log(UUID))) == 2000


@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
def test_what_is_no_file_of_the_log_daemons_is_not_read(guest, kind, tmp_path):
    path = paths.console_log(UUID)
    (tmp_path / "secret").write_text(PANIC)
    {
        "link": lambda: os.symlink(tmp_path / "secret", path),
        "fifo": lambda: os.mkfifo(path),
        "directory": lambda: os.mkdir(path),
    }[kind]()
    assert state(guest) == "not looked at"


def test_what_the_guest_says_is_shown_cleaned(guest):
    says("[    1.0] Kernel panic - not syncing: \x1b[2J{{ lookup('pipe', 'id') }}\r\n")
    seen = health.look(guest.connection, UUID)["seen"]
    assert "\x1b" not in seen and "{{" not in seen and "Kernel panic" in seen


def test_an_agent_that_answers_counts_more_than_an_old_panic(guest):
    says(PANIC)
    connected(guest, {"seconds": 1, "nseconds": 0})
    assert state(guest) == "answers"


def test_an_agent_that_is_connected_and_does_not_answer_says_nothing_good(guest):
    connected(guest, fake_libvirt.libvirtError(86, "Guest agent is not responding"))
    assert state(guest) == "not looked at"
    says(PANIC)
    assert state(guest) == "crashed"


def test_an_agent_that_is_not_connected_is_not_asked(guest):
    guest.time = AssertionError("was asked")
    assert state(guest) == "not looked at"


@pytest.mark.parametrize(
    "now, reason, expected",
    [
        (fake_libvirt.SHUTOFF, fake_libvirt.SHUT_DOWN, "off"),
        (fake_libvirt.SHUTOFF, fake_libvirt.UNKNOWN, "off"),
        (fake_libvirt.SHUTOFF, fake_libvirt.CRASH, "crashed"),
        (fake_libvirt.CRASHED, 0, "crashed"),
    ],
)
def test_libvirts_word_on_a_guest_that_does_not_run(guest, now, reason, expected):
    guest.now, guest.reason = now, reason
    says(PANIC if expected == "off" else LOGIN)
    assert state(guest) == expected


OVMF = "!!!! X64 Exception Type - 0E(#PF - Page-Fault)  CPU Apic ID - 00000000 !!!!\r\n"
REGISTERS = "ExceptionData - 0000000000000000\r\nRIP  - 0000000007A6BBA3, CS  - 0000000000000038\r\nRAX  - 0000\r\n"
IMAGE = "!!!! Find image based on IP(0x7A6BBA3) (No PDB) !!!!\r\n"


@pytest.mark.parametrize(
    "text",
    [
        OVMF,
        BOOT + OVMF + REGISTERS + IMAGE,
        "ASSERT [DxeCore] /edk2/Page.c(123): FALSE\r\n",
        "ASSERT_EFI_ERROR (Status)",
    ],
)
def test_a_guest_whose_firmware_ended_in_an_exception_has_crashed(guest, text):
    says(text)
    assert state(guest) == "crashed"


def test_a_guest_that_was_started_after_an_exception_of_its_firmware_has_not_crashed(guest):
    says(OVMF + REGISTERS + IMAGE + "BdsDxe: loading Boot0001\r\n")
    assert state(guest) == "no panic seen"


@pytest.mark.parametrize(
    "text, told",
    [
        (LOGIN, "up"),
        (LOGIN + "\r\n[   99.000001] eth0: link up\r\n", "up"),
        (BOOT, "no panic seen"),
        (LOGIN + BOOT, "no panic seen"),
    ],
)
def test_a_guest_came_up_if_its_console_ends_with_a_login(guest, text, told):
    says(text)
    assert state(guest) == told
