# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host remembers of instances: known and planned are two things, and neither grows without a limit."""

from __future__ import annotations

import json
import os

import pytest
from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.compute import durable
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import claim, whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.module_utils.model import hints, host_hints, migration
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record

WEB = instance_uuid("default", "web1")
H1, H2 = (instance_uuid("hosts", name) for name in ("kvm1", "kvm2"))
NAMES = {H1: "kvm1", H2: "kvm2"}


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "berth"))


def tell(store, **told):
    return whereabouts.remember(store, {"hosts": NAMES, **told})


def known(store):
    note = whereabouts.recall(store, [WEB]).get(WEB, {}).get("known")
    return note and (note["host"], note["generation"])


def planned(store):
    return sorted(
        (entry["host"], entry["run"]) for entry in whereabouts.recall(store, [WEB]).get(WEB, {}).get("planned", ())
    )


def plan(host_uuid, run):
    return {"uuid": WEB, "host_uuid": host_uuid, "run": run}


def record(role="OWN", generation=(1, 7), **more):
    return Record(
        uuid=WEB, name="web1", project_id="default", role=role, generation=list(generation), token="t", phase="active",
        spec={"flavor": {"name": "tiny"}}, resources={}, **more,
    )  # fmt: skip


def test_a_plan_leaves_what_is_known_as_it_is(store):
    tell(store, known={H1: {WEB: [1, 7]}})
    tell(store, planned=[plan(H2, "r2")])
    assert (known(store), planned(store)) == (("kvm1", [1, 7]), [("kvm2", "r2")])
    tell(store, ended=[plan(H2, "r2")])
    assert (known(store), planned(store)) == (("kvm1", [1, 7]), [])


@pytest.mark.parametrize("generation, last", [([1, 6], "kvm1"), ([1, 7], "kvm1"), ([1, 8], "kvm2"), ([2, 0], "kvm2")])
def test_only_a_higher_generation_replaces_what_is_known(store, generation, last):
    tell(store, known={H1: {WEB: [1, 7]}})
    tell(store, known={H2: {WEB: generation}})
    assert known(store)[0] == last


def test_a_host_that_does_not_name_the_instance_any_more_removes_nothing(store):
    """A state directory that is not mounted has no records."""
    tell(store, known={H1: {WEB: [1, 7]}})
    assert not tell(store, known={H1: {}})
    assert known(store) == ("kvm1", [1, 7])


@pytest.mark.parametrize(
    "host_uuid, generation, left",
    [(H1, [1, 7], False), (H1, [1, 9], False), (H1, [1, 6], True), (H2, [1, 9], True)],
    ids=["its owner, as it was", "its owner, later", "its owner, of an earlier time", "another host"],
)
def test_only_its_owners_word_that_it_is_gone_removes_what_is_known(store, host_uuid, generation, left):
    tell(store, known={H1: {WEB: [1, 7]}})
    tell(store, gone={host_uuid: {WEB: generation}})
    assert bool(known(store)) == left


def test_what_an_earlier_owner_had_went_with_the_instance_of_its_last_owner(store):
    """It was moved from kvm1 to kvm2 and deleted there; this host has heard of no owner but kvm1."""
    tell(store, known={H1: {WEB: [1, 7]}})
    tell(store, gone={H2: {WEB: [2, 0]}})
    assert known(store) is None


def test_plans_of_two_runs_stand_side_by_side(store):
    tell(store, planned=[plan(H1, "r1")])
    tell(store, planned=[plan(H2, "r2")])
    assert planned(store) == [("kvm1", "r1"), ("kvm2", "r2")]


def test_the_epoch_after_which_an_owner_begins_is_told_though_nothing_else_is_known(store):
    tell(store, planned=[plan(H1, "r1")], after={WEB: 4})
    tell(store, ended=[plan(H1, "r1")])
    nothing = {"known": None, "planned": [], "gone": None, "left": None}
    assert whereabouts.recall(store, [WEB]) == {WEB: {**nothing, "after": 4}} and whereabouts.epoch(store, WEB) == 4


def test_what_was_told_before_is_no_news(store):
    assert tell(store, known={H1: {WEB: [1, 7]}})
    assert not tell(store, known={H1: {WEB: [1, 7]}})


def test_the_host_itself_remembers_what_it_deleted_and_who_took_over(store):
    sides = {"uuid": H1, "name": "kvm1"}, {"uuid": H2, "name": "kvm2"}
    for role, move, note in (
        ("OWN", None, {"known": None, "planned": [], "after": 0, "gone": [1, 7], "left": None}),
        ("OUT", migration.new_migration("op", "migration", *sides, record("OUT"), record("OUT").spec, 0), None),
    ):
        first = record(role, migration=move).replace(phase="keep" if move else "deleting")
        store.compare_and_swap(plant(store, first), None)
        if note:
            assert whereabouts.recall(store, [WEB]) == {WEB: note}
    assert known(store) == ("kvm2", [1, 0]) and whereabouts.recall(store, [WEB])[WEB]["left"] == [1, 7]


def test_what_went_later_is_what_counts(store):
    """A delete may be told of an earlier generation than this host has already seen go."""
    whereabouts.removed(store, WEB, [3, 2])
    assert whereabouts.removed(store, WEB, [1, 7]) is False
    assert (whereabouts.recall(store, [WEB])[WEB]["gone"], whereabouts.epoch(store, WEB)) == ([3, 2], 3)


def test_a_claim_that_is_withdrawn_leaves_no_trace(store):
    store.compare_and_swap(plant(store, record("CLAIM").replace(phase="claimed")), None)
    assert whereabouts.recall(store, [WEB]) == {}


def test_a_new_owner_begins_after_all_earlier_ones(store):
    assert whereabouts.epoch(store, WEB) == 0
    tell(store, known={H1: {WEB: [3, 7]}})
    assert whereabouts.epoch(store, WEB) == 3


@pytest.mark.parametrize(
    "told, after, epoch", [({}, None, 0), ({}, [4, 2], 4), ({"known": {H1: {WEB: [3, 7]}}}, [2, 0], 3)]
)
def test_a_claim_is_in_the_latest_epoch_that_the_controller_or_the_host_has_heard_of(store, told, after, epoch):
    tell(store, **told)
    spec = {"uuid": WEB, "name": "web1", "project_id": "default", "flavor": {"name": "tiny"}}
    claim._write(store, spec, "t", {}, after)
    assert store.read(WEB).generation == [epoch, 1]


def test_the_first_form_of_the_file_is_read_as_plans(store):
    """It did not tell known from planned."""
    durable.write_in(
        store.state_dir,
        whereabouts.FILE,
        json.dumps({WEB: {"host": "kvm1", "host_uuid": H1, "run": "r0"}}).encode(),
        create=True,
    )
    assert (known(store), planned(store)) == (None, [("kvm1", "r0")])


@pytest.mark.parametrize("first", [{}, {WEB: {"host": "kvm1", "host_uuid": H1, "run": "r0"}}])
def test_a_file_that_somebody_emptied_or_put_back_in_its_first_form_is_not_nothing_known(store, first):
    """Not even if it is well-formed: another create would make what a silent host has."""
    tell(store, known={H1: {WEB: [1, 7]}})
    durable.write_in(store.state_dir, whereabouts.FILE, json.dumps(first).encode())
    with pytest.raises(
        whereabouts.WhereaboutsDamaged, match="restore the file, and whereabouts.written beside it, from one backup"
    ):
        whereabouts.recall(store, [WEB])


def test_two_hundred_thousand_instances_are_remembered(store):
    """With the file's first form 123,000 locked up every host."""
    many = {"%08x-0000-4000-8000-000000000000" % number: [1, number] for number in range(200_000)}
    assert tell(store, known={H1: many})
    assert whereabouts.recall(store, list(many)[-1:])[list(many)[-1]]["known"]["generation"] == [1, 199_999]


@pytest.mark.follows("split_the_fleet")
def test_more_than_can_be_read_back_is_never_written(store, monkeypatch):
    tell(store, known={H1: {WEB: [1, 7]}})
    monkeypatch.setattr(durable, "LIMIT", 400)
    many = {"%08x-0000-4000-8000-000000000000" % number: [1, number] for number in range(20)}
    with pytest.raises(whereabouts.WhereaboutsFull, match="would have"):
        tell(store, known={H1: many})
    assert known(store) == ("kvm1", [1, 7])
    # the hint: an inventory with fewer hosts tells of fewer instances
    assert tell(store, known={H2: {WEB: [2, 0]}})
    assert known(store) == ("kvm2", [2, 0])


@pytest.mark.follows("restore_whereabouts")
@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b"null",
        b'{"schema": 0}',
        b'{"schema": 2}',
        b'{"schema":2,"hosts":[],"known":{"u":[0,1,1]}}',
        b"[" * 9999,
    ],
    ids=[
        "cut off",
        "a list",
        "nothing",
        "no schema that there was",
        "parts missing",
        "a host that is not there",
        "deep",
    ],
)
def test_a_damaged_file_is_an_error_of_its_host_and_never_nothing_known(store, data):
    durable.write_in(store.state_dir, whereabouts.FILE, data, create=True)
    for call in (lambda: whereabouts.recall(store, [WEB]), lambda: tell(store, known={H1: {WEB: [1, 7]}})):
        with pytest.raises(
            whereabouts.WhereaboutsDamaged, match="restore the file, and whereabouts.written beside it, from one backup"
        ):
            call()
    # what the hint says where there is no backup: the file is moved away, and told anew by the next create
    move_away(store, whereabouts.FILE)
    tell(store, known={H1: {WEB: [1, 7]}})
    assert known(store) == ("kvm1", [1, 7])


@pytest.mark.follows("newer_version")
def test_a_file_of_a_newer_version_is_kept_as_it_is_for_the_version_that_wrote_it(store, monkeypatch):
    """It is not damaged: who moved it away, as the hint for damaged files says, would lose what the host knows."""
    tell(store, known={H1: {WEB: [1, 7]}})
    written = json.loads(durable.read_in(store.state_dir, whereabouts.FILE))
    data = json.dumps({**written, "schema": 4}).encode()
    durable.write_in(store.state_dir, whereabouts.FILE, data)
    for call in (lambda: whereabouts.recall(store, [WEB]), lambda: tell(store, known={H1: {WEB: [1, 7]}})):
        with pytest.raises(whereabouts.WhereaboutsDamaged, match="has schema 4, this version knows 3") as refused:
            call()
        assert refused.value.hint == host_hints.newer_version()
    assert durable.read_in(store.state_dir, whereabouts.FILE) == data
    monkeypatch.setattr(whereabouts, "SCHEMA", 4)
    assert known(store) == ("kvm1", [1, 7])


def test_a_version_that_knows_no_count_takes_no_file_with_one(store):
    """It would leave the count out, and the next newer one would take the file for an older one."""
    tell(store, known={H1: {WEB: [1, 7]}})
    data = json.loads(durable.read_in(store.state_dir, whereabouts.FILE))
    assert data["written"] == 1 and data["schema"] > 2


def move_away(store, name):
    path = os.path.join(store.state_dir, name)
    os.rename(path, path + ".away")


@pytest.mark.follows("restore_whereabouts")
def test_a_file_that_was_there_and_is_gone_is_not_nothing_known(store):
    """A host that was never told anything has none; one whose file was deleted may have known where an instance is."""
    assert whereabouts.recall(store, [WEB]) == {}
    tell(store, known={H1: {WEB: [1, 7]}})
    move_away(store, whereabouts.FILE)
    for call in (lambda: whereabouts.recall(store, [WEB]), lambda: tell(store, known={H1: {WEB: [1, 7]}})):
        with pytest.raises(whereabouts.WhereaboutsDamaged, match="is gone") as refused:
            call()
    assert whereabouts.WRITTEN in refused.value.hint
    move_away(store, whereabouts.WRITTEN)  # what the hint says where there is no backup
    tell(store, known={H1: {WEB: [1, 7]}})
    assert known(store) == ("kvm1", [1, 7])


UNCOUNTED = b'{"schema":2,"hosts":[],"known":{},"planned":{},"after":{},"gone":{},"left":{}}'


@pytest.mark.follows("restore_whereabouts")
@pytest.mark.parametrize("again", [None, UNCOUNTED], ids=["an earlier one", "an empty one"])
def test_a_file_that_is_older_than_what_was_last_written_is_not_all_that_is_known(store, again):
    tell(store, known={H1: {WEB: [1, 7]}})
    backup = {name: durable.read_in(store.state_dir, name) for name in (whereabouts.FILE, whereabouts.WRITTEN)}
    tell(store, known={H2: {WEB: [2, 0]}})
    durable.write_in(store.state_dir, whereabouts.FILE, again or backup[whereabouts.FILE])
    for call in (lambda: whereabouts.recall(store, [WEB]), lambda: tell(store, known={H1: {WEB: [1, 8]}})):
        with pytest.raises(whereabouts.WhereaboutsDamaged, match="it is older than what was last written"):
            call()
    # what the hint says: both from one backup; the next create tells what is newer
    for name, data in backup.items():
        durable.write_in(store.state_dir, name, data)
    assert known(store) == ("kvm1", [1, 7])
    tell(store, known={H2: {WEB: [2, 0]}})
    assert known(store) == ("kvm2", [2, 0])


def test_wherever_a_write_is_killed_the_file_is_sound_and_the_next_write_goes_on(tmp_path, monkeypatch):
    write, finished, killed = durable.write_in, False, 0
    while not finished:
        store, left = Store(str(tmp_path / str(killed))), killed
        tell(store, known={H1: {WEB: [1, 7]}})

        def killing(*args, **more):
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt
            left -= 1
            write(*args, **more)

        monkeypatch.setattr(durable, "write_in", killing)
        try:
            finished = tell(store, known={H1: {WEB: [1, 8]}})
        except KeyboardInterrupt:
            killed += 1
        monkeypatch.setattr(durable, "write_in", write)
        assert known(store)[1] in ([1, 7], [1, 8])
        tell(store, known={H1: {WEB: [1, 9]}})
        assert known(store) == ("kvm1", [1, 9])
    assert killed == 2, "the file and the count beside it"


def test_who_reads_while_another_process_writes_takes_no_sound_file_for_an_older_one(store, monkeypatch):
    tell(store, known={H1: {WEB: [1, 7]}})
    read = durable.read_in

    def and_written(directory, name):
        found = read(directory, name)
        monkeypatch.setattr(durable, "read_in", read)
        tell(Store(store.state_dir), known={H1: {WEB: [1, 8]}})
        return found

    monkeypatch.setattr(durable, "read_in", and_written)
    assert known(store)[1] in ([1, 7], [1, 8])


@pytest.mark.parametrize("nonsense", [b"x", b"-", b"9" * 5000])
def test_a_count_that_is_none_is_an_error_of_its_host(store, nonsense):
    tell(store, known={H1: {WEB: [1, 7]}})
    durable.write_in(store.state_dir, whereabouts.WRITTEN, nonsense)
    with pytest.raises(whereabouts.WhereaboutsDamaged):
        whereabouts.recall(store, [WEB])


def test_a_file_of_before_it_was_counted_is_read_and_counted_from_the_next_news_on(store):
    durable.write_in(store.state_dir, whereabouts.FILE, UNCOUNTED, create=True)
    durable.write_in(store.state_dir, whereabouts.WRITTEN, b"")
    assert whereabouts.recall(store, [WEB]) == {}
    tell(store, known={H1: {WEB: [1, 7]}})
    assert durable.read_in(store.state_dir, whereabouts.WRITTEN) == b"1"


def test_a_host_that_knew_something_before_it_had_the_mark_gets_it_with_the_next_news(store):
    tell(store, known={H1: {WEB: [1, 7]}})
    os.unlink(os.path.join(store.state_dir, whereabouts.WRITTEN))
    assert known(store) == ("kvm1", [1, 7])
    tell(store, known={H1: {WEB: [1, 8]}})
    assert os.path.exists(os.path.join(store.state_dir, whereabouts.WRITTEN))


def test_a_file_that_is_too_long_is_an_error_of_its_host(store, monkeypatch):
    tell(store, known={H1: {WEB: [1, 7]}})
    monkeypatch.setattr(durable, "LIMIT", 10)
    with pytest.raises(whereabouts.WhereaboutsDamaged):
        whereabouts.recall(store, [WEB])


@pytest.mark.follows("split_the_fleet")
def test_more_than_can_be_read_back_is_not_written_and_a_part_of_the_fleet_is(store, monkeypatch):
    tell(store, known={H1: {WEB: [1, 7]}})
    half = {instance_uuid("default", "vm%d" % number): [1, 1] for number in range(10)}
    both = {**half, **{instance_uuid("default", "vm%d" % number): [1, 1] for number in range(10, 40)}}
    monkeypatch.setattr(durable, "LIMIT", 1500)
    with pytest.raises(whereabouts.WhereaboutsFull) as refused:
        tell(store, known={H2: both})
    assert refused.value.hint == hints.split_the_fleet() and known(store) == ("kvm1", [1, 7])
    assert not whereabouts.recall(store, list(both))
    tell(store, known={H2: half})
    assert known(store) == ("kvm1", [1, 7]) and len(whereabouts.recall(store, list(half))) == 10


@pytest.mark.parametrize("kind", ["told", "removed"])
def test_notes_are_changed_under_the_hosts_lock_from_the_reading_to_the_writing(store, monkeypatch, kind):
    """Of two runs that tell at once, the later one would drop what the other told: an instance could be made twice."""
    held = []

    def watched(function):
        def called(*arguments, **options):
            held.append(None in store._held)
            return function(*arguments, **options)

        return called

    for name in ("read_in", "write_in"):
        monkeypatch.setattr(durable, name, watched(getattr(durable, name)))
    if kind == "told":
        tell(store, known={H1: {WEB: [1, 0]}})
    else:
        whereabouts.removed(store, WEB, (1, 0))
    assert len(held) > 2 and all(held)
