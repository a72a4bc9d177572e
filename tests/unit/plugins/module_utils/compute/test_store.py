# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record store: compare-and-swap, durable writes, locks, tombstones (C03, I4, I12; security.md: links, modes)."""

from __future__ import annotations

import json
import os
import stat

import pytest
from records import in_a_move, plant
from store_case import FORK, OTHER, UUID, record

from ansible_collections.berth.kvm.plugins.module_utils.compute import durable
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import (
    HostBusy,
    InstanceBusy,
    StaleRecord,
    StateUnsafe,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import store as store_module
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.module_utils.model import host_hints
from ansible_collections.berth.kvm.plugins.module_utils.model import record as record_module
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import IllegalChange
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record, RecordInvalid


def test_what_was_written_is_read_back(store):
    written = store.compare_and_swap(None, record())
    assert store.read(UUID) == written == record()
    assert store.records() == [record()]


def test_an_absent_record_is_none(store):
    assert store.read(UUID) is None
    assert store.records() == []


@pytest.mark.parametrize(
    "expected",
    [None, record(role="OWN"), record(generation=[0, 2]), record(token="t2"), record(uuid=OTHER)],
    ids=["none", "role", "generation", "token", "other instance"],
)
def test_a_swap_against_another_version_changes_nothing(store, expected):
    store.compare_and_swap(None, record())
    new = record(uuid=(expected or record()).uuid, generation=[7, 1], token="t9")
    with pytest.raises(StaleRecord):
        store.compare_and_swap(expected, new)
    assert store.records() == [record()]


def test_the_generation_must_grow(store):
    store.compare_and_swap(None, record())
    with pytest.raises(RecordInvalid, match="would not grow"):
        store.compare_and_swap(record(), record(vm_state="active"))


def test_a_removed_record_leaves_no_directory(store, state):
    store.compare_and_swap(None, record())
    store.compare_and_swap(record(), None)
    assert store.read(UUID) is None
    assert os.listdir(os.path.join(state, "instances")) == []


def test_files_and_directories_are_for_their_owner_only(store, state):
    os.umask(0o000)
    try:
        store.compare_and_swap(None, record())
        store.bury("t0")
    finally:
        os.umask(0o022)
    modes = {
        os.path.relpath(os.path.join(top, name), state): stat.S_IMODE(os.stat(os.path.join(top, name)).st_mode)
        for top, directories, files in os.walk(state)
        for name in directories + files
    }
    assert {mode for path, mode in modes.items() if path.endswith((".json", "lock"))} == {0o600}
    assert {modes["instances"], modes["instances/" + UUID]} == {0o700}


def _plant(state, uuid, data):
    directory = os.path.join(state, "instances", uuid)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    for path in (state, os.path.join(state, "instances"), directory):
        os.chmod(path, 0o700)
    path = os.path.join(directory, "record.json")
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(data)
    os.chmod(path, 0o600)
    return path


@pytest.mark.parametrize(
    "data, message",
    [
        ("", "damaged"),
        ("{", "damaged"),
        ("[" * 100000, "damaged"),
        ("[]", "not an object"),
        (json.dumps({**record().to_dict(), "schema": 2}), "schema 2"),
        (json.dumps({name: part for name, part in record().to_dict().items() if name != "token"}), "missing parts"),
        (json.dumps({**record().to_dict(), "role": "BOSS"}), "unknown role"),
        (json.dumps({**record().to_dict(), "generation": [1]}), "generation"),
        (json.dumps({**record().to_dict(), "uuid": OTHER}), "is that of"),
    ],
    ids=["empty", "cut", "deep", "list", "newer schema", "missing field", "role", "generation", "another's"],
)
def test_a_record_that_cannot_be_trusted_is_refused_not_absent(store, state, data, message):
    _plant(state, UUID, data)
    for read in (lambda: store.read(UUID), store.records, lambda: store.compare_and_swap(None, record())):
        with pytest.raises(RecordInvalid, match=message):
            read()


@pytest.mark.follows("newer_version")
def test_a_record_of_a_newer_version_is_kept_as_it_is_for_the_version_that_wrote_it(store, state, monkeypatch):
    written = json.dumps({**record().to_dict(), "schema": 2})
    _plant(state, UUID, written)
    with pytest.raises(RecordInvalid) as refused:
        store.read(UUID)
    assert refused.value.hint == host_hints.newer_version()
    with open(os.path.join(state, "instances", UUID, "record.json"), encoding="utf-8") as stream:
        assert stream.read() == written
    monkeypatch.setattr(record_module, "SCHEMA", 2)
    assert store.read(UUID).uuid == UUID


def test_a_link_in_place_of_the_record_is_refused(store, state, tmp_path):
    """Also where it leads to a good record."""
    store.compare_and_swap(None, record())
    path = os.path.join(state, "instances", UUID, "record.json")
    os.rename(path, str(tmp_path / "elsewhere"))
    os.symlink(str(tmp_path / "elsewhere"), path)
    with pytest.raises(StateUnsafe):
        store.read(UUID)


@pytest.mark.parametrize("part", ["", "instances", "instances/" + UUID])
def test_a_link_in_place_of_a_directory_is_refused(store, state, tmp_path, part):
    store.compare_and_swap(None, record())
    path = os.path.join(state, part).rstrip("/")
    os.rename(path, str(tmp_path / "elsewhere"))
    os.symlink(str(tmp_path / "elsewhere"), path)
    with pytest.raises(StateUnsafe):
        store.compare_and_swap(record(), record(generation=[0, 2]))


def test_a_record_that_others_may_read_is_refused(store, state):
    store.compare_and_swap(None, record())
    os.chmod(os.path.join(state, "instances", UUID, "record.json"), 0o644)
    with pytest.raises(StateUnsafe):
        store.read(UUID)


@pytest.mark.parametrize("uuid", ["", "../" + UUID, UUID.upper(), UUID + "\n", None, "record.json"])
def test_only_a_plain_uuid_names_an_instance(store, uuid):
    with pytest.raises(InvalidInput):
        store.read(uuid)


def test_a_token_that_is_buried_again_takes_the_place_of_no_other(store, monkeypatch):
    monkeypatch.setattr(store_module, "TOMBSTONE_LIMIT", 2)
    for token in ("t1", "t2", "t2", "t2"):
        store.bury(token)
    assert [store.is_buried(token) for token in ("t1", "t2")] == [True, True]


def test_a_buried_token_stays_buried(store, state):
    store.bury("t1")
    assert Store(state).is_buried("t1")
    assert not Store(state).is_buried("t2")


def test_only_the_latest_tombstones_are_kept(store, monkeypatch):
    monkeypatch.setattr(store_module, "TOMBSTONE_LIMIT", 2)
    for token in ("t1", "t2", "t3"):
        store.bury(token)
    assert [store.is_buried(token) for token in ("t1", "t2", "t3")] == [False, True, True]


# locks


def test_a_second_run_waits_for_the_instance_and_then_says_who_has_it(store, state):
    with store.instance_lock(UUID):
        with pytest.raises(InstanceBusy, match="locked by berth, process %d" % os.getpid()):
            with Store(state, action="delete").instance_lock(UUID, timeout=0):
                pytest.fail("two runs hold one lock")  # pragma: no cover
    with Store(state).instance_lock(UUID, timeout=0):
        pass


def test_the_host_lock_is_retryable_elsewhere(store, state):
    with store.host_lock():
        with pytest.raises(HostBusy) as caught:
            with Store(state).host_lock(timeout=0):
                pass
    assert caught.value.retryable


def test_a_lock_file_removed_by_its_holder_does_not_let_two_in(state):
    """The holder removes the directory when he leaves; who waited on the old file must take the new one."""
    first = Store(state)
    results = FORK.Queue()

    def contend():
        for _round in range(60):
            with Store(state).instance_lock(UUID, timeout=30):
                marker = os.path.join(state, "marker")
                fd = os.open(marker, os.O_CREAT | os.O_EXCL)  # fails where another is inside
                os.close(fd)
                os.unlink(marker)
        results.put(True)

    with first.host_lock():
        pass
    workers = [FORK.Process(target=contend) for _worker in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]


def test_of_many_swaps_from_one_version_exactly_one_wins(store, state):
    store.compare_and_swap(None, record())
    results = FORK.Queue()

    def attempt(number):
        try:
            Store(state).compare_and_swap(record(), record(token="t%d" % number, generation=[0, 2]))
            results.put(number)
        except StaleRecord:
            results.put(None)

    workers = [FORK.Process(target=attempt, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    outcome = [results.get(timeout=30) for _worker in workers]
    for worker in workers:
        worker.join(30)
    winners = [number for number in outcome if number is not None]
    assert len(winners) == 1
    assert store.read(UUID).token == "t%d" % winners[0]


def test_a_record_that_does_not_read_back_as_it_was_written_is_an_error(store, state, monkeypatch):
    """A storage that lies, or another who writes there: nothing is done by a record that is not on the disk."""
    mine = store.compare_and_swap(None, record())
    monkeypatch.setattr(durable, "write", lambda directory_fd, name, data: None)
    with pytest.raises(RecordInvalid, match="read back"):
        store.compare_and_swap(mine, mine.next(token="t2"))


def test_a_change_that_the_life_of_an_instance_does_not_have_is_not_written(store):
    """From a claim nobody comes to be in a move: there is no guest that could be moved."""
    mine = store.compare_and_swap(None, record())
    with pytest.raises(IllegalChange):
        store.compare_and_swap(mine, in_a_move(mine.next(role="OWN", phase="resized")))
    assert store.read(UUID) == mine


def test_a_record_is_restored_only_where_there_is_none(store):
    mine = store.compare_and_swap(None, record())
    with pytest.raises(StaleRecord):
        store.restore(record(role="OWN", phase="active", generation=[9, 0]))
    assert store.read(UUID) == mine


def test_a_record_of_another_instance_is_not_swapped_in(store):
    mine = store.compare_and_swap(None, record())
    with pytest.raises(RecordInvalid, match=OTHER):
        store.compare_and_swap(mine, record(uuid=OTHER, generation=[0, 2]))
    assert (store.read(UUID), store.read(OTHER)) == (mine, None)


def _text(store):
    with open(os.path.join(store.state_dir, "instances", UUID, "record.json"), encoding="utf-8") as file:
        return file.read()


def test_a_field_of_a_later_version_is_read_and_kept_by_every_write(store):
    """A27: within one schema; the name of our own part for them is such a field, too."""
    later = {"colour": {"is": ["red"]}, "unknown": 7}
    plant(store, Record.from_dict({**record().to_dict(), **later}))
    read = store.read(UUID)
    assert read.unknown == later
    written = store.compare_and_swap(read, read.next(token="other"))
    on_disk = json.loads(_text(store))
    assert {name: on_disk[name] for name in later} == later and on_disk["token"] == "other"
    assert written.unknown == later and Record.from_dict(written.to_dict()) == written
