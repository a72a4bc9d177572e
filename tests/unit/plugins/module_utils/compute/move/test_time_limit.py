# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the time limit of a live migration does, and from when it counts."""

from __future__ import annotations

import json

import fake_libvirt
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import live_watch

MIB = 1 << 20
DISK = 100 * MIB  # virtual size of the guest's disks
MEMORY = 64 * MIB


class Migrating:
    """A guest whose migration stands at ``stats``; ``did``: what it was told. ``now``: the clock, in seconds."""

    def __init__(self, monkeypatch, **options):
        self.did, self.now, self.stats = [], 0.0, {}
        self.limit = live_watch.Limit({"timeout": 10, "timeout_action": "force_complete", **options}, lambda: DISK)
        monkeypatch.setattr(live_watch.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(connection, "libvirt", fake_libvirt.library())
        monkeypatch.setattr(domain, "ask_qemu", self.answer)

    def answer(self, _guest, text):
        asked = json.loads(text)
        if asked["execute"] == "query-block-jobs":
            return json.dumps(
                {"return": [{"type": "mirror", "device": "disk0"}, {"type": "backup", "device": "other"}]}
            )
        self.did.append((asked["execute"], asked["arguments"]["device"], asked["arguments"]["speed"]))
        return json.dumps({"return": {}})

    def jobStats(self, _flags):  # noqa: N802
        return self.stats

    def maxMemory(self):  # noqa: N802
        return MEMORY >> 10

    def migrateGetMaxSpeed(self, _flags):  # noqa: N802
        return 8796093022207

    def migrateSetMaxSpeed(self, speed, _flags=0):  # noqa: N802
        self.did.append(("memory", speed))

    def suspend(self):
        self.did.append("suspend")

    def abortJob(self):  # noqa: N802
        self.did.append("abort")

    def at(self, now, disk=None, memory=None):
        """Let it be ``now``. ``disk``, ``memory``: (copied, left) in bytes."""
        self.now, self.stats = now, {}
        if disk:
            self.stats.update(disk_total=sum(disk), disk_processed=disk[0])
        if memory:
            self.stats.update(memory_total=MEMORY, memory_processed=memory[0], memory_remaining=memory[1])
        self.limit.enforce(self)
        return self.did


def test_the_first_copy_of_the_disks_does_not_count(monkeypatch):
    guest = Migrating(monkeypatch)
    assert guest.at(0, disk=(0, DISK)) == guest.at(5000, disk=(DISK // 2, DISK // 2)) == []
    assert guest.at(6000, disk=(DISK, 0), memory=(0, MIB)) == []
    assert guest.at(6009, disk=(DISK, 0), memory=(50 * MIB, MIB)) == []
    assert guest.at(6011, disk=(DISK, 0), memory=(60 * MIB, MIB)) == ["suspend"]


def test_a_guest_that_writes_faster_than_disks_are_copied_has_had_its_first_copy_when_that_much_was_sent(monkeypatch):
    guest = Migrating(monkeypatch, timeout_action="abort")
    assert guest.at(100, disk=(DISK - 1, MIB)) == guest.at(200, disk=(DISK, 50 * MIB)) == []
    assert guest.at(211, disk=(DISK + MIB, 50 * MIB)) == ["abort"]


@pytest.mark.parametrize("disk", [None, (0, 0)])
def test_where_nothing_is_copied_yet_nothing_has_ended(monkeypatch, disk):
    guest = Migrating(monkeypatch)
    assert guest.at(0, disk=disk) == guest.at(1000, disk=disk) == []


def test_without_a_limit_nothing_is_done(monkeypatch):
    guest = Migrating(monkeypatch, timeout=0)
    assert guest.at(0, memory=(0, MIB)) == guest.at(10**6, memory=(0, MIB)) == []


def test_the_limit_on_the_bandwidth_is_lifted_for_a_guest_that_stands_still(monkeypatch):
    guest = Migrating(monkeypatch, bandwidth=4)
    guest.at(0, memory=(0, 900 * MIB))
    did = guest.at(11, memory=(MIB, 900 * MIB))
    assert did == ["suspend", ("block-job-set-speed", "disk0", 0), ("memory", 8796093022207)] and guest.limit.stopped


def test_the_limit_on_memory_is_lifted_once_its_copy_has_begun(monkeypatch):
    """libvirt sets it when that begins, which may be after the guest was stopped."""
    guest = Migrating(monkeypatch, bandwidth=4)
    guest.at(0, disk=(DISK, MIB))
    assert guest.at(11, disk=(DISK, MIB)) == ["suspend", ("block-job-set-speed", "disk0", 0)]
    assert guest.at(12, disk=(DISK, 0), memory=(1, MIB))[2:] == [("memory", 8796093022207)]
    assert len(guest.at(13, disk=(DISK, 0), memory=(2, MIB))) == 3


def test_what_is_left_would_take_too_long_so_the_guest_is_not_stopped_at_all(monkeypatch):
    guest = Migrating(monkeypatch)
    guest.at(0, memory=(0, 700 * MIB))
    assert guest.at(11, memory=(110 * MIB, 700 * MIB)) == ["abort"] and not guest.limit.stopped  # 10 MiB/s
    assert "the 700 MiB that are left (about 70 s; berth_max_pause is 60 s)" in guest.limit.ended
    assert "auto-converge was on" in guest.limit.ended
    assert guest.at(12, memory=(0, MIB)) == ["abort"], "once"


def test_nothing_comes_on_so_the_guest_is_not_stopped_at_all(monkeypatch):
    guest = Migrating(monkeypatch, permit_auto_converge=False)
    guest.at(0, memory=(5, MIB))
    assert guest.at(11, memory=(5, MIB)) == ["abort"]
    assert "no end, at the rate seen" in guest.limit.ended and "auto-converge was off" in guest.limit.ended


def test_a_stopped_guest_goes_on_where_the_rest_takes_longer_than_was_thought(monkeypatch):
    guest = Migrating(monkeypatch)
    guest.at(0, memory=(0, 500 * MIB))
    assert guest.at(10, memory=(100 * MIB, 500 * MIB)) == ["suspend"]
    assert guest.at(12, memory=(101 * MIB, 499 * MIB)) == ["suspend"], "too early to tell"
    assert guest.at(14, memory=(102 * MIB, 498 * MIB)) == ["suspend", "abort"]


def test_a_stopped_guest_stands_still_for_the_set_maximum_at_most(monkeypatch):
    guest = Migrating(monkeypatch, max_pause=20, bandwidth=1)
    guest.at(0, memory=(0, 60 * MIB))
    guest.at(10, memory=(10 * MIB, 60 * MIB))
    assert "abort" not in guest.at(25, memory=(20 * MIB, 10 * MIB))
    assert guest.at(31, memory=(30 * MIB, 1))[-1] == "abort"


def test_memory_whose_copy_has_not_begun_is_left_as_a_whole(monkeypatch):
    guest = Migrating(monkeypatch)
    assert live_watch.left_and_copied(guest, {"disk_total": DISK, "disk_processed": MIB}) == (DISK - MIB + MEMORY, MIB)
