# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""After its boot a host starts the guests that the registry says are its own, and no other."""

from __future__ import annotations

import pytest
from instance_case import Case

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.after_outage import start_guests
from ansible_collections.berth.kvm.plugins.module_utils.compute.host.registry_reading import Read, RegistrySilent
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import registry_mark

MARK = {"kind": "etcd", "incarnation": "one", "revision": 100}
OTHER = "22222222-3c6e-5d59-9d0b-3a1c9d7f1e2a"
PENDING = {"run": "r1", "kind": "move", "host": OTHER, "op": "o", "claimed": False}


class Registry:
    """``silent``: it gives no answer; ``asked``: for which instances it was asked."""

    def __init__(self, mark=None, is_open=True, silent=False):
        self.mark, self.is_open, self.silent = mark or MARK, is_open, silent
        self.entries, self.asked = {}, []

    def read(self, uuids):
        self.asked.append(uuids)
        if self.silent:
            raise RegistrySilent("no member of the registry answers: kvm1: timed out")
        return Read(self.mark, self.is_open, self.entries)


class Host:
    """web1 and web2 ran on it when it lost its power."""

    def __init__(self, prepared, wanted, boot):
        self.host, self.said = prepared, []
        self.guests = {name: Case(prepared, wanted(name)) for name in ("web1", "web2")}
        for guest in self.guests.values():
            guest.make()
        with prepared.store.host_lock():
            registry_mark.keep(prepared.store, MARK)
        prepared.connection.lose_power()
        boot("two")

    def start(self, registry=None, **web1):
        """``web1``: what the registry knows of it otherwise. Return which guests run, and whether all do that should."""
        registry = registry or Registry()
        for name, guest in self.guests.items():
            known = {"owner": self.host.uuid, "epoch": guest.record.generation[0], "pending": []}
            registry.entries[guest.uuid] = {**known, **(web1 if name == "web1" else {})}
        all_run = start_guests(self.host, registry, self.said.append)
        return [name for name, guest in self.guests.items() if guest.state()[3]], all_run


@pytest.fixture(name="host")
def after_a_power_cut(prepared, wanted, boot):
    yield Host(prepared, wanted, boot)
    registry_mark.act_over(None)


def test_what_the_registry_says_is_its_own_is_started_once(host):
    registry = Registry()
    assert host.start(registry) == (["web1", "web2"], True) and host.said == ["web1 was started", "web2 was started"]
    assert host.start(registry) == (["web1", "web2"], True) and host.said[2:] == [
        "no guest of this host is to be started"
    ]
    assert len(registry.asked) == 1 and host.guests["web1"].domain.starts == 2


def test_what_was_stopped_or_ended_by_somebody_is_left_off(host):
    host.start()
    host.guests["web1"].instance().stopped(0)
    host.guests["web2"].domain.end(1)
    assert host.start() == ([], True)


@pytest.mark.parametrize(
    "known, why",
    [
        ({"owner": OTHER}, "another host, or to none"),
        ({"owner": None}, "another host, or to none"),
        ({"epoch": 7}, "its epoch here is 1, and by the registry 7"),
        ({"pending": [PENDING]}, "a run works on it"),
    ],
)
def test_what_the_registry_does_not_leave_to_it_is_not_started_and_the_others_are(host, known, why):
    assert host.start(**known) == (["web2"], False)
    assert host.said[0].startswith("web1 was not started: ") and why in host.said[0]


def test_an_instance_that_the_registry_does_not_know_is_not_started(host):
    registry = Registry()
    registry.read = lambda _uuids: Read(MARK, True, {})
    assert host.start(registry) == ([], False) and host.said[0].startswith("web1 was not started: ")


@pytest.mark.parametrize(
    "registry, why",
    [
        (Registry(silent=True), "no member of the registry answers"),
        (Registry(is_open=False), "the registry is closed"),
        (Registry({**MARK, "incarnation": "two"}), "belongs to the etcd registry one, and"),
        (Registry({**MARK, "revision": 99}), "has seen revision 100"),
    ],
)
def test_a_registry_that_is_silent_closed_another_or_older_has_nothing_started(host, registry, why):
    assert host.start(registry) == ([], False)
    (said,) = host.said
    assert said.startswith("nothing was started, not web1, web2: ") and why in said


def test_a_host_without_a_registry_starts_nothing(host):
    with host.host.store.host_lock():
        registry_mark.keep(host.host.store, None)
    assert host.start() == ([], False) and "belongs to no registry" in host.said[0]


def test_a_guest_that_does_not_start_keeps_no_other_off(host):
    next((host.host.pool / "instances" / host.guests["web1"].uuid).glob("root*")).unlink()
    assert host.start() == (["web2"], False) and host.said[0].startswith("web1 was not started: ")
