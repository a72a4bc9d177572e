# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A record whose bits changed on the disk is refused by name, and its host goes on with all others."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from store_case import OTHER, UUID, record

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domains
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import facts
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import KEY, canonical
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import read_fleet
from ansible_collections.berth.kvm.plugins.module_utils.conductor.locate import locate
from ansible_collections.berth.kvm.plugins.module_utils.model import host_document, state_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.record import RecordInvalid


@pytest.fixture
def path(store):
    store.compare_and_swap(None, record(generation=[12, 345]))
    return os.path.join(store.state_dir, "instances", UUID, "record.json")


def write(path, data):
    with open(path, "wb") as stream:
        stream.write(data)


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


def test_no_bit_of_a_record_changes_what_is_read(store, path):
    """Each bit: a record reads as it was written, or is refused with its host, its file and what to do."""
    good, was, refused = read(path), store.read(UUID), 0
    for at in range(8 * len(good)):
        write(path, good[: at // 8] + bytes([good[at // 8] ^ 1 << at % 8]) + good[at // 8 + 1 :])
        try:
            now = store.read(UUID)
        except RecordInvalid as error:
            refused += 1
            assert path in error.message and os.uname().nodename in error.message and error.hint
            continue
        assert now.replace(unknown={}) == was, at
    assert refused > 7 * len(good)


@pytest.mark.parametrize(
    "old, new",
    [
        (b'"vcpus": 1', b'"vcpus": 3'),
        (b'"name": "web-1"', b'"name": "web-0"'),
        (b"[12, 345]", b"[12, 344]"),
        (b'"vcpus"', b'"vcpts"'),
        (b'"sha256": "', b'"sha256": "0'),
        (b'"sha256"', b'"sha257"'),
        (b'{"checksum": {', b'{"checksum": null, "more": {'),
    ],
    ids=["number", "name", "generation", "key", "checksum", "key of the checksum", "no checksum"],
)
def test_each_kind_of_damage_is_a_typed_error(store, path, old, new):
    good = read(path)
    assert old in good
    write(path, good.replace(old, new))
    with pytest.raises(RecordInvalid, match="damaged: its checksum") as refused:
        store.read(UUID)
    assert refused.value.hint == state_hints.restore_damaged_record(UUID)


def test_a_record_that_is_cut_off_is_a_typed_error(store, path):
    good = read(path)
    for end in range(0, len(good), 7):
        write(path, good[:end])
        with pytest.raises(RecordInvalid):
            store.read(UUID)


def test_a_record_of_an_older_version_has_none_until_it_is_written_again(store, path):
    old = store.read(UUID)
    write(path, canonical(old.to_dict()))
    assert store.read(UUID) == old
    store.compare_and_swap(old, old.next())
    assert KEY in json.loads(read(path))


def test_what_an_older_version_wrote_since_is_accepted(store, path):
    """It keeps fields that it does not know, so the checksum is that of the record before."""
    newer = store.read(UUID).next(vm_state="active").to_dict()
    write(path, canonical({**json.loads(read(path)), **newer}))
    assert store.read(UUID).vm_state == "active"


def test_a_damaged_record_hides_no_other_of_its_host(store, path):
    store.compare_and_swap(None, record(uuid=OTHER))
    write(path, read(path).replace(b'"vcpus": 1', b'"vcpus": 3'))
    assert store.sound() == [record(uuid=OTHER)] and store.has(UUID)
    with pytest.raises(RecordInvalid):
        store.records()


FOREIGN = facts._foreign(
    domains.Domain(UUID, UUID, 1, 64, (), (), (), (), None, frozenset()), {UUID: (None, "running")}, {}, None, set()
)


@pytest.mark.parametrize("defined", [True, False])
def test_its_instance_is_refused_by_name_and_its_host_answers_and_gets_no_new_guests(store, path, defined):
    write(path, read(path).replace(b'"vcpus": 1', b'"vcpus": 3'))
    document = {"uuid": OTHER, "instances": [FOREIGN] * defined, "service": {"disabled": False}, "warnings": []}
    document = facts.with_damaged(document, store.sound_and_damaged()[1])
    assert [instance["uuid"] for instance in document["instances"]] == [UUID]
    shown = document["instances"][0]
    host_document._INSTANCE(shown)
    assert (shown["foreign"], shown["managed"]) == (True, True)
    reason = document["service"]["disabled_reason"]
    assert document["service"]["disabled"] and reason.startswith("the record of %s is damaged: " % UUID)
    assert reason.endswith(state_hints.restore_damaged_record(UUID)) and "berth.kvm.restore_record" in reason
    with pytest.raises(RecordInvalid, match="kvm1 cannot read its record of web-1: .*checksum") as refused:
        locate(read_fleet({"kvm1": {"document": document, "notes": {}}}, lambda document: document), "web-1", UUID)
    assert refused.value.hint == state_hints.restore_damaged_record(UUID, "kvm1")


def test_why_a_host_with_a_damaged_record_gets_no_new_guests_is_taken_from_it_however_long_it_is():
    """Else its facts are refused, and all that it has is unknown with the one record."""
    document = json.loads((Path(__file__).parents[2] / "action" / "host.json").read_text("utf-8"))
    error = RecordInvalid("x" * 600, hint=state_hints.restore_damaged_record(UUID))
    told = facts.with_damaged(document, {UUID: error})
    assert told["num_instances"] == len(told["instances"])
    assert host_document.check(told)["service"]["disabled"]


def test_a_damaged_record_of_a_volume_is_told_and_its_host_goes_on():
    document = {"service": {"disabled": False}, "warnings": ["w"]}
    told = facts.with_damaged_volumes(document, {UUID: RecordInvalid("its checksum is none")})
    assert told["damaged_volumes"] == {UUID: "its checksum is none"} and not told["service"]["disabled"]
    assert told["warnings"] == ["its checksum is none", "w"]
    assert facts.with_damaged_volumes(document, {}) == document
