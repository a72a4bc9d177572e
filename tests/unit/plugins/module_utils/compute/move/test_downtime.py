# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the guest of a live migration stands still is counted from libvirt's event on the source to the one on the
destination."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import live_watch

SUSPENDED, RESUMED, STOPPED = 3, 4, 5
LIBRARY = SimpleNamespace(
    libvirtError=OSError, VIR_DOMAIN_EVENT_ID_LIFECYCLE=0, VIR_DOMAIN_EVENT_SUSPENDED=SUSPENDED,
    VIR_DOMAIN_EVENT_RESUMED=RESUMED,
)  # fmt: skip


class Libvirt:
    """A connection that tells its listeners of events; ``clock`` is what the events are timed by."""

    def __init__(self, clock, broken=False):
        self.clock, self.broken, self.listeners = clock, broken, {}

    def domainEventRegisterAny(self, _guest, _kind, listener, opaque):
        if self.broken:
            raise OSError("the connection is gone")
        self.listeners[len(self.listeners)] = listener, opaque
        return len(self.listeners) - 1

    def domainEventDeregisterAny(self, number):
        del self.listeners[number]

    def tell(self, event, at, uuid="web1"):
        self.clock[0] = at
        for listener, opaque in self.listeners.values():
            listener(self, SimpleNamespace(UUIDString=lambda: uuid), event, 0, opaque)


@pytest.fixture
def hosts(monkeypatch):
    monkeypatch.setattr(connection, "libvirt", LIBRARY)
    clock = [0.0]
    monkeypatch.setattr(live_watch, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    source, destination = Libvirt(clock), Libvirt(clock)
    return source, destination, live_watch.Downtime(source, destination, "web1")


def away(hosts, on_source, resumed):
    """The milliseconds that are measured when the source tells of ``on_source`` and the guest goes on at ``resumed``."""
    source, destination, measured = hosts
    for event, at in on_source:
        source.tell(event, at)
    destination.tell(RESUMED, resumed)
    return measured.end()


def test_from_the_stop_on_the_source_until_it_goes_on_on_the_destination(hosts):
    source, destination, measured = hosts
    source.tell(SUSPENDED, 10.0)
    destination.tell(SUSPENDED, 10.2)
    source.tell(STOPPED, 10.3)
    destination.tell(RESUMED, 10.431)
    assert measured.end() == 431


@pytest.mark.parametrize("before", [[], [RESUMED]])
def test_a_guest_that_is_suspended_on_the_destination_was_not_yet_away_for_a_known_time(hosts, before):
    source, destination, measured = hosts
    source.tell(SUSPENDED, 10.0)
    for event in [*before, SUSPENDED]:
        destination.tell(event, 10.2)
    assert measured.end() is None


def test_other_guests_of_the_two_hosts_do_not_count(hosts):
    source, destination, measured = hosts
    source.tell(SUSPENDED, 1.0, uuid="other")
    source.tell(SUSPENDED, 10.0)
    destination.tell(RESUMED, 10.5)
    destination.tell(RESUMED, 99.0, uuid="other")
    assert measured.end() == 500


def test_a_guest_that_the_time_limit_stopped_is_away_from_then_on(hosts):
    """force_complete: QEMU stops it once more at the end."""
    assert away(hosts, [(SUSPENDED, 10.0), (SUSPENDED, 14.0)], 15.0) == 5000


def test_a_stop_after_which_the_guest_went_on_where_it_was_does_not_count(hosts):
    assert away(hosts, [(SUSPENDED, 10.0), (RESUMED, 12.0), (SUSPENDED, 20.0)], 20.25) == 250


def test_nobody_listens_after_the_end(hosts):
    source, destination, measured = hosts
    measured.end()
    assert (source.listeners, destination.listeners) == ({}, {})
    assert measured.end() is None


def test_a_libvirt_that_tells_no_events_ends_no_migration(monkeypatch):
    monkeypatch.setattr(connection, "libvirt", LIBRARY)
    source, destination = Libvirt([0.0]), Libvirt([0.0], broken=True)
    measured = live_watch.Downtime(source, destination, "web1")
    source.tell(SUSPENDED, 10.0)
    assert measured.end() is None
