# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Source and destination end a live migration between them, and whichever word of theirs is lost, the controller ends it
(I3, I4, I5)."""

from __future__ import annotations

import queue
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[5] / "protocol"))

import memory  # noqa: E402
import memory_controller  # noqa: E402
import memory_names  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.compute.move import handover  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import table  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.record import MOST  # noqa: E402

S, D, UUID = memory_names.S, memory_names.D, memory_names.UUID
SILENCE = 0.5  # s


class Channel:
    """Two queues; ``lost`` is the number of the word that nobody hears."""

    words = ("the receipt", "that it is owned", "that the source is purged", "that it has ended")

    def __init__(self, here, there, lost):
        self.here, self.there, self.lost, self.said = here, there, lost, 0

    def send(self, view):
        if self.words[self.lost[1]] != self.lost[0]:
            self.there.put(view)
        self.lost[1] += 1

    def ask(self, view):
        self.send(view)
        return self.receive(None)

    def receive(self, is_wanted):
        try:
            return self.here.get(timeout=SILENCE)
        except queue.Empty:
            return None


def handed_over(monkeypatch, lost):
    """A live migration whose guest has arrived, after source and destination have talked. -> (world, controller, said)"""
    world, controller = memory.World(kind="live-migration"), memory_controller.Controller("resize", "op0")
    while not controller.is_before("tell"):
        controller.advance(world)
    ends, counted = (queue.Queue(), queue.Queue()), [lost, 0]
    monkeypatch.setattr(memory.Effects, "channel_to_destination", lambda *_any: Channel(ends[0], ends[1], counted))
    monkeypatch.setattr(memory.Effects, "channel_to_source", lambda *_any: Channel(ends[1], ends[0], counted))
    token = dict(controller.token)
    waiter = threading.Thread(target=table.run, args=(world.host(D), UUID, "take_over", token))
    waiter.start()
    _changed, said = table.run(world.host(S), UUID, "tell", token)
    waiter.join()
    monkeypatch.undo()
    return world, controller, said


def check_ended(world):
    record = world.records[D]
    assert (record["role"], record["phase"], record["op"]) == ("OWN", "active", None)
    assert (world.records[S], world.disks[S], world.guest) == (None, None, {S: memory_names.OFF, D: memory_names.ON})


def test_the_hosts_end_it_between_them(monkeypatch):
    world, _controller, said = handed_over(monkeypatch, None)
    assert said["ended"] and said["downtime_ms"] == 431
    check_ended(world)


@pytest.mark.parametrize("lost", Channel.words)
def test_the_controller_ends_what_a_lost_word_leaves(monkeypatch, lost):
    world, controller, said = handed_over(monkeypatch, lost)
    assert not said.get("ended")
    while controller.state == "run":
        controller.advance(world)
    assert controller.state == "done", controller.error
    check_ended(world)


RECEIPT = {"role": "OUT", "phase": "keep", "op": "op0", "attempt": 1, "generation": [2, 0]}
OWNED = {"role": "OWN", "phase": "confirming", "op": "op0", "attempt": 2, "generation": [2, 3]}


@pytest.mark.parametrize(
    "owned",
    [
        None,
        RECEIPT,
        {**OWNED, "phase": "resized"},
        {**OWNED, "op": "another"},
        {**OWNED, "attempt": 1},
        {**OWNED, "attempt": None},
        {**OWNED, "generation": [3, 0]},
        {**OWNED, "generation": None},
    ],
)
def test_the_source_keeps_its_disk_while_the_destination_does_not_own_the_guest_for_good(monkeypatch, owned):
    """I3."""
    world, controller = memory.World(kind="live-migration"), memory_controller.Controller("resize", "op0")
    while not controller.is_before("tell"):
        controller.advance(world)
    channel = SimpleNamespace(ask=lambda view: owned)
    monkeypatch.setattr(memory.Effects, "channel_to_destination", lambda *_any: channel)
    changed, _said = table.run(world.host(S), UUID, "tell", controller.token)
    assert not changed and world.disks[S] and world.records[S]["role"] == "OUT"


class Guest:
    """The metadata of a guest, and libvirt's news of it."""

    def __init__(self):
        self.texts, self.listeners = {}, []

    def setMetadata(self, _kind, text, _key, uri, _flags):
        self.texts[uri] = text
        for listener in list(self.listeners):
            listener()

    def metadata(self, _kind, uri, _flags):
        if self.texts.get(uri) is None:
            raise LibvirtError(uri)
        return self.texts[uri]


class LibvirtError(Exception):
    pass


@pytest.fixture
def guest(monkeypatch):
    fake = Guest()
    library = SimpleNamespace(
        libvirtError=LibvirtError, VIR_DOMAIN_METADATA_ELEMENT=2, VIR_DOMAIN_AFFECT_LIVE=1,
        VIR_DOMAIN_EVENT_ID_METADATA_CHANGE=23,
    )  # fmt: skip
    monkeypatch.setattr(handover, "require_libvirt", lambda: library)
    monkeypatch.setattr(handover.guests, "find", lambda connection, uuid: fake)
    monkeypatch.setattr(handover, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(handover, "PICKED_UP_SECONDS", 0.2)
    monkeypatch.setattr(handover, "ANSWER_SECONDS", 1.0)
    return fake


def lines(guest, op="op0", other_op="op0"):
    connection = SimpleNamespace(
        isAlive=lambda: True,
        lookupByUUIDString=lambda uuid: guest,
        domainEventRegisterAny=lambda _domain, _event, heard, _more: guest.listeners.append(heard) or heard,
        domainEventDeregisterAny=guest.listeners.remove,
    )
    return (
        handover.MessageChannel(connection, UUID, op, outgoing=handover.SOURCE, incoming=handover.DESTINATION),
        handover.MessageChannel(connection, UUID, other_op, outgoing=handover.DESTINATION, incoming=handover.SOURCE),
    )


def test_each_side_hears_the_other_and_nothing_is_left_with_the_guest(guest):
    source, destination = lines(guest)
    heard = []

    def wait():
        heard.append(destination.receive(lambda: True))
        destination.send(OWNED)

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert source.ask(RECEIPT) == OWNED
    waiter.join()
    assert heard == [RECEIPT]
    assert not any(guest.texts.values()) and not guest.listeners


def test_where_nobody_waits_the_source_does_not_wait_for_an_answer(guest):
    source, _destination = lines(guest)
    handover.ANSWER_SECONDS = 99
    assert source.ask(RECEIPT) is None


def test_who_took_the_word_and_does_not_answer_is_not_waited_for_for_ever(guest):
    source, destination = lines(guest)
    waiter = threading.Thread(target=destination.receive, args=(lambda: True,))
    waiter.start()
    assert source.ask(RECEIPT) is None
    waiter.join()


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("op0", "op1"),
        lambda text: text.replace("2, 0", "2, "),
        lambda text: text.replace('"attempt": 1', '"attempt": "1"'),
        lambda text: text.replace('"attempt": 1', '"attempt": %d' % (MOST + 1)),
        lambda text: text.replace("2, 0", "2, %d" % (MOST + 1)),
        lambda text: text.replace("2, 0", "2.0, 0"),
        lambda text: "<receipt>[]</receipt>",
        lambda text: "<receipt/>",
    ],
)
def test_a_word_of_another_move_or_none_at_all_is_not_heard(guest, change):
    source, destination = lines(guest)
    source.send(RECEIPT)
    uri = handover.NAMESPACE % handover.SOURCE
    assert destination._read(handover.SOURCE)
    guest.texts[uri] = change(guest.texts[uri])
    looks = iter([True, True, False])
    assert destination.receive(lambda: next(looks)) is None
