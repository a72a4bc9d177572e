# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is left of an instance whose creation was given up: a note, no record (C02, C14, C15)."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import failed_instances
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import CLAIM
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record

ONE, OTHER = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a", "1c8fab63-4d7f-5e6a-8e1c-4b2dae80f2b3"


def failed(uuid=ONE, message="no space"):
    return {
        "uuid": uuid,
        "name": "web-1",
        "project_id": "p",
        "host": "kvm1",
        "error": {"code": "BuildFailed", "message": message},
    }


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "berth"))


def test_a_failure_is_shown_in_vm_state_error_with_its_fault(store):
    assert failed_instances.note(store, [failed()])
    shown = failed_instances.describe(ONE, failed_instances.read(store.state_dir)[ONE])
    assert (shown["vm_state"], shown["task_state"], shown["role"], shown["state"]) == ("error", None, None, "absent")
    fault = shown["faults"][0]
    assert (fault["code"], fault["message"], fault["host"]) == ("BuildFailed", "no space", "kvm1")
    assert fault["at"].endswith("Z")


def test_it_is_there_until_it_is_forgotten_and_the_others_stay(store):
    failed_instances.note(store, [failed(), failed(OTHER)])
    assert failed_instances.forget(store, [ONE])
    assert list(failed_instances.read(store.state_dir)) == [OTHER]
    assert not failed_instances.forget(store, [ONE])


def test_of_too_many_the_one_that_failed_last_stays_also_where_it_had_failed_before(store, monkeypatch):
    monkeypatch.setattr(failed_instances, "LIMIT", 2)
    third = "2d90bc74-5e80-5f7b-9f2d-5c3ebf91a3c4"
    for uuid, message in ((ONE, "no space"), (OTHER, "no space"), (ONE, "no space again"), (third, "no space")):
        failed_instances.note(store, [failed(uuid, message)])
    assert set(failed_instances.read(store.state_dir)) == {ONE, third}


def test_notes_are_read_and_written_under_one_hold_of_the_hosts_lock(store, monkeypatch):
    """Of two runs at once, the later one would drop what the other noted."""
    held, write = [], failed_instances.durable.write_in

    def write_in(*arguments, **options):
        held.append(None in store._held)
        write(*arguments, **options)

    monkeypatch.setattr(failed_instances.durable, "write_in", write_in)
    failed_instances.note(store, [failed()])
    failed_instances.forget(store, [ONE])
    assert held == [True, True]


def test_check_mode_notes_nothing(store):
    assert failed_instances.note(store, [failed()], dry=True)
    assert failed_instances.read(store.state_dir) == {}


def test_an_instance_with_a_record_here_gets_no_note(store):
    record = Record(
        uuid=ONE,
        name="web-1",
        project_id="p",
        role=CLAIM,
        generation=[0, 1],
        token="t",
        phase="claimed",
        spec={"flavor": {"name": "tiny"}},
        resources={},
    )
    store.compare_and_swap(None, record)
    assert not failed_instances.note(store, [failed()])


def test_a_note_is_bounded_in_length_and_the_notes_in_number(store, monkeypatch):
    monkeypatch.setattr(failed_instances, "LIMIT", 1)
    failed_instances.note(store, [failed(message="x" * 5000), failed(OTHER, "y" * 5000)])
    assert {uuid: len(entry["message"]) for uuid, entry in failed_instances.read(store.state_dir).items()} == {
        OTHER: failed_instances.LONGEST
    }


def test_what_is_no_uuid_is_refused(store):
    with pytest.raises(InvalidInput):
        failed_instances.note(store, [failed("../../etc")])


def test_a_host_that_was_never_prepared_has_none(tmp_path):
    assert failed_instances.read(str(tmp_path / "none")) == {}
