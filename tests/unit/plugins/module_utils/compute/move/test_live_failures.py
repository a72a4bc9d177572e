# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Live migrations that libvirt refuses, or whose destination is gone: what is tried, and which reason is told."""

from __future__ import annotations

from types import SimpleNamespace

import fake_libvirt
import pytest
from move_side import SPECS

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import live
from ansible_collections.berth.kvm.plugins.module_utils.model import host_hints, operation_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import MigrationError

DISKS = """<domain><devices>
  <disk device="disk"><source file="/pool/instances/u/root.qcow2"/><target dev="vda"/></disk>
</devices></domain>"""
NAMES = (
    "DOMAIN_XML_MIGRATABLE DOMAIN_XML_SECURE MIGRATE_LIVE MIGRATE_PEER2PEER MIGRATE_PAUSED MIGRATE_AUTO_CONVERGE MIGRATE_TLS "
    "MIGRATE_NON_SHARED_DISK MIGRATE_PARAM_URI MIGRATE_PARAM_DEST_XML MIGRATE_PARAM_MIGRATE_DISKS"
).split()


class Halfway:
    """A guest whose libvirtd died while it opened the destination's disks; libvirt refuses as long as a node is there."""

    def __init__(self, monkeypatch, user=None, tells=True):
        self.library, self.asked = fake_libvirt.library(), 0
        vars(self.library).update({"VIR_" + name: 1 << at for at, name in enumerate(NAMES)})
        self.nodes = {
            "migration-vda-storage": ("nbd://192.0.2.2:49152/vda", "migration-vda-format"),
            "migration-vda-format": ("json:{}", user),
            "libvirt-1-storage": ("/pool/root.qcow2", "a device"),
        }
        monkeypatch.setattr(connection, "libvirt", self.library)
        monkeypatch.setattr(connection, "libvirt_qemu", fake_libvirt.QemuPart if tells else None)
        monkeypatch.setattr(live, "disk_problems", lambda *_: ())
        monkeypatch.setattr(live, "watch", lambda found, uuid, thread, options, copying: thread.join())
        self.unbounded = self

    def name(self):
        return "u"

    def backupGetXMLDesc(self, _flags):  # noqa: N802
        raise self.library.libvirtError(55, "Requested operation is not valid: no domain backup job present")

    def XMLDesc(self, _flags):  # noqa: N802
        return DISKS

    def state(self):
        return [self.library.VIR_DOMAIN_SHUTOFF, 0]

    def migrateToURI3(self, _uri, _parameters, _flags):  # noqa: N802
        self.asked += 1
        if "migration-vda-storage" in self.nodes:
            raise self.library.libvirtError(1, "Duplicate nodes with node-name='migration-vda-storage'")

    def migrate(self, remote=None):
        record, there = (
            SimpleNamespace(uuid="u", spec=SPECS["new"], resources={}, power_state="running"),
            {"address": "192.0.2.2", "pool_path": "/pool"},
        )
        live.start(self, record, "/pool", there, {}, remote=remote)


def test_what_a_libvirtd_that_died_in_a_migration_left_open_in_qemu_is_closed_and_the_guest_migrates(monkeypatch):
    guest = Halfway(monkeypatch)
    guest.migrate()
    assert (list(guest.nodes), guest.asked) == (["libvirt-1-storage"], 2)


@pytest.mark.parametrize("how", [{"user": "a device"}, {"tells": False}])
def test_a_refused_migration_whose_leftovers_qemu_keeps_is_told_with_libvirts_reason(monkeypatch, how):
    guest = Halfway(monkeypatch, **how)
    with pytest.raises(MigrationError, match="Duplicate nodes"):
        guest.migrate()
    assert (len(guest.nodes), guest.asked) == (3, 1)


@pytest.mark.parametrize("alive", [0, 1])
def test_a_destination_that_stopped_answering_is_the_first_reason_that_is_told(monkeypatch, alive):
    """libvirt's own words may be no more than that a socket was closed."""
    guest = Halfway(monkeypatch, tells=False)
    with pytest.raises(MigrationError) as error:
        guest.migrate(SimpleNamespace(isAlive=lambda: alive, lookupByUUIDString=lambda _uuid: guest))
    assert str(error.value).startswith("libvirt: " if alive else "the destination stopped answering; libvirt: ")
    assert error.value.hint == (None if alive else host_hints.libvirt_ended("the destination"))


@pytest.mark.follows("compare_mtu")
def test_a_destination_that_acknowledged_nothing_is_named_with_what_shows_why_and_the_guest_stays(monkeypatch):
    guest = Halfway(monkeypatch, tells=False)

    def watch(_guest, _uuid, thread, _options, copying):
        thread.join()
        copying.stuck = "migration-vda-storage" in guest.nodes

    monkeypatch.setattr(live, "watch", watch)
    with pytest.raises(
        MigrationError, match="acknowledged nothing of what was sent to 192.0.2.2 .*; libvirt: "
    ) as error:
        guest.migrate()
    assert error.value.hint == host_hints.compare_mtu("192.0.2.2")
    guest.nodes = {}
    guest.migrate()


@pytest.mark.follows("open_ports")
def test_a_destination_whose_ports_a_firewall_closes_is_named_with_the_ports_to_open(monkeypatch):
    guest = Halfway(monkeypatch)
    error = guest.library.libvirtError(1, "blockdev-add: Failed to connect to '192.0.2.2:49153': Connection timed out")
    monkeypatch.setattr(live, "_run", lambda *_: error)
    guest.nodes = {}
    with pytest.raises(MigrationError) as told:
        guest.migrate()
    assert told.value.hint == operation_hints.open_ports("192.0.2.2") and "49152-49343" in told.value.hint
    monkeypatch.setattr(live, "_run", lambda *_: None)
    guest.migrate()


def test_a_destination_whose_pool_is_full_is_told_with_what_makes_room(monkeypatch):
    guest = Halfway(monkeypatch, tells=False)
    error = guest.library.libvirtError(1, "migration of disk vda failed: No space left on device")
    monkeypatch.setattr(live, "_run", lambda *_: error)
    with pytest.raises(MigrationError) as told:
        guest.migrate()
    assert told.value.hint == host_hints.make_room_in_pool()


def test_whoever_watches_a_migration_has_the_connection_to_its_destination_and_the_address(monkeypatch):
    guest, seen = Halfway(monkeypatch), []
    guest.nodes = {}
    monkeypatch.setattr(
        live, "watch", lambda found, uuid, thread, options, copying: thread.join() or seen.append(copying)
    )
    record = SimpleNamespace(uuid="u", spec=SPECS["new"], resources={}, power_state="running")
    monkeypatch.setattr(live, "connect", lambda **_: "destination")
    monkeypatch.setattr(live, "Downtime", lambda *_: SimpleNamespace())
    monkeypatch.setattr(live, "has_left", lambda *_: False)
    guest.isActive = lambda: True
    monkeypatch.setattr(live.guests, "find", lambda *_: guest)
    monkeypatch.setattr(live.left_backup, "end_backup_of", lambda *_: None)
    source = SimpleNamespace(unbounded="source")
    effects = SimpleNamespace(connection=source, pool_path=lambda _record: "/pool")
    live.migrate(effects, record, {"address": "192.0.2.2", "pool_path": "/pool"}, {})
    assert [(each.remote, each.address) for each in seen] == [("destination", "192.0.2.2")]


def test_a_migration_that_failed_since_its_destination_is_gone_is_told_with_libvirts_reason(monkeypatch):
    """Not with what the look at the destination's copy meets."""

    def fail(*_arguments):
        raise MigrationError("libvirt: lost connection to destination host")

    def look(*_arguments):
        raise connection.LibvirtUnavailable("client socket is closed")

    monkeypatch.setattr(connection, "libvirt", fake_libvirt.library())
    monkeypatch.setattr(live, "connect", lambda **_: "destination")
    monkeypatch.setattr(live, "Downtime", lambda *_: None)
    monkeypatch.setattr(live, "has_left", lambda *_: False)
    monkeypatch.setattr(live, "start", fail)
    monkeypatch.setattr(live.guests, "find", lambda *_: SimpleNamespace(isActive=lambda: True))
    monkeypatch.setattr(live.left_backup, "end_backup_of", lambda *_: None)
    monkeypatch.setattr(live.guests, "is_active", look)
    effects = SimpleNamespace(connection=SimpleNamespace(unbounded="source"), pool_path=lambda _record: "/pool")
    with pytest.raises(MigrationError, match="lost connection"):
        live.migrate(effects, SimpleNamespace(uuid="u"), {"address": "192.0.2.2", "pool_path": "/pool"}, {})
