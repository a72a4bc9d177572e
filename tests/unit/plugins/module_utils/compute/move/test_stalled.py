# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A live migration that copies disks to a destination which is gone, and a block job that does not come on."""

from __future__ import annotations

from types import SimpleNamespace

import fake_libvirt
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import block_jobs, live_watch, watchdog
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import TransferFailed

GONE, LONG = live_watch.GONE_SECONDS, live_watch.STALLED_SECONDS


class Guest:
    """Its QEMU copies one disk; ``cut``: how often its connection was."""

    def __init__(self, coming_on=False):
        self.coming_on, self.processed, self.times_cut, self.times_ended = coming_on, 0, 0, 0
        self.nodes = {"migration-vda-storage": ("nbd", None), "libvirt-1-storage": ("/pool/root.qcow2", "a device")}

    def jobStats(self, _flags):  # noqa: N802
        self.processed += self.coming_on
        return {"disk_processed": self.processed, "memory_processed": 0}

    def cut(self, names):
        assert names == ["migration-vda-storage"], "files of this host stay open"
        self.times_cut += 1

    def abortJob(self):  # noqa: N802
        self.times_ended += 1


def refuse():
    raise connection.libvirt.libvirtError(38, "the connection is gone")


ALIVE, DEAD, BROKEN = (SimpleNamespace(isAlive=answer) for answer in (lambda: 1, lambda: 0, refuse))


@pytest.fixture
def cut_after(monkeypatch):
    """cut_after(guest, seconds, ...) -> how often its connection was cut when it was looked at each second for so long"""
    monkeypatch.setattr(connection, "libvirt", fake_libvirt.library())
    monkeypatch.setattr(connection, "libvirt_qemu", fake_libvirt.QemuPart)
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(live_watch.time, "monotonic", lambda: clock.now)

    def look(guest, seconds, remote=None, told_to_end=False, address=None):
        copying = live_watch.Stalled(guest, remote, address)
        for _second in range(int(seconds) + 1):
            copying.check(told_to_end)
            clock.now += 1
        return guest.times_cut

    return look


@pytest.mark.parametrize("how", [{"remote": DEAD}, {"remote": BROKEN}, {"remote": ALIVE, "told_to_end": True}])
def test_what_does_not_come_on_is_cut_soon_if_the_destination_is_gone_or_it_was_told_to_end(cut_after, how):
    assert cut_after(Guest(), GONE - 1, **how) == 0
    assert cut_after(Guest(), GONE + 1, **how) == 1


@pytest.fixture
def sent(monkeypatch):
    """sent(times, address): the kernel has sent again so often what that end has not acknowledged."""

    def to(times, address="192.0.2.2"):
        found = [watchdog.Connection(40000, address, 49152, times)]
        monkeypatch.setattr(watchdog, "established", lambda: iter(found))

    return to


def test_what_does_not_come_on_ends_soon_if_the_destination_answers_and_acknowledges_nothing(cut_after, sent):
    """Where large packets are lost on the way, libvirt's keepalive comes through. The job itself is ended too: on shared
    storage no disk is copied whose connection could be cut."""
    sent(watchdog.MOST_REPEATED)
    guest = Guest()
    assert cut_after(guest, GONE - 1, ALIVE, address="192.0.2.2") == 0 and guest.times_ended == 0
    assert cut_after(guest, GONE + 1, ALIVE, address="192.0.2.2") == 1 and guest.times_ended == 1


@pytest.mark.parametrize(
    "times, to, coming_on",
    [(watchdog.MOST_REPEATED - 1, "192.0.2.2", False), (9, "192.0.2.3", False), (9, "192.0.2.2", True)],
    ids=["packets lost now and then", "another host", "a slow link"],
)
def test_no_other_migration_ends_for_that(cut_after, sent, times, to, coming_on):
    sent(times, to)
    assert cut_after(Guest(coming_on), LONG - 1, ALIVE, address="192.0.2.2") == 0


@pytest.mark.parametrize("remote", [ALIVE, None], ids=["alive", "unknown"])
def test_what_does_not_come_on_is_cut_late_if_the_destination_answers_or_is_not_known(cut_after, remote):
    assert cut_after(Guest(), LONG - 1, remote) == 0
    assert cut_after(Guest(), LONG + 1, remote) == 1


@pytest.mark.parametrize("remote", [ALIVE, DEAD, None])
def test_what_comes_on_is_never_cut(cut_after, remote):
    """The connection that looks may break while the one that copies holds."""
    assert cut_after(Guest(coming_on=True), 2 * LONG, remote, told_to_end=True) == 0


def test_a_qemu_that_knows_no_way_to_cut_them_is_left_as_it_is(cut_after, monkeypatch):
    monkeypatch.setattr(connection, "libvirt_qemu", None)
    assert cut_after(Guest(), GONE + 1, DEAD) == 0


def test_a_block_job_that_does_not_come_on_is_not_waited_for_for_ever(monkeypatch):
    pytest.importorskip("libvirt")
    monkeypatch.setattr(block_jobs, "STALLED_SECONDS", 0.3)
    monkeypatch.setattr(block_jobs, "target_of", lambda _domain, _path: "vda")
    guest = SimpleNamespace(blockJobInfo=lambda _target, _flags: {"cur": 7}, blockRebase=lambda *_all: None)
    with pytest.raises(TransferFailed, match="has made no progress"):
        block_jobs.pull(guest, "/x", None)
