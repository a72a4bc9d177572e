# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hosts remember of an instance, put together: who had it last, and whether it is gone."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.module_utils.conductor import sides
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import (
    HostNameAmbiguous,
    InstanceUnknown,
    RecordMissing,
    RecordOutdated,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import Fleet
from ansible_collections.berth.kvm.plugins.module_utils.conductor.locate import locate
from ansible_collections.berth.kvm.plugins.module_utils.conductor.notes import put_together
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints

WEB, WEB2 = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a", "1b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"


def note(known=None, gone=None):
    host, *generation = known or (None,)
    return {"known": host and {"host": host, "host_uuid": host, "generation": generation}, "planned": [], "gone": gone}


@pytest.mark.parametrize(
    "told, last",
    [
        ({"kvm1": note(("kvm1", 1, 4))}, "kvm1"),
        ({"kvm1": note(gone=[1, 5]), "kvm2": note(("kvm1", 1, 4))}, None),
        ({"kvm1": note(("kvm2", 2, 0), gone=[3, 9])}, None),
        ({"kvm1": note(("kvm2", 2, 0)), "kvm2": note(gone=[2, 6]), "kvm3": note(("kvm1", 1, 4))}, None),
        ({"kvm2": note(("kvm1", 1, 4), gone=[2, 6])}, None),
        ({"kvm2": note(gone=[2, 6]), "kvm3": note(("kvm1", 1, 4))}, "kvm1"),
        ({"kvm2": note(("kvm2", 2, 0), gone=[2, 6]), "kvm3": note(("kvm1", 1, 4))}, "kvm1"),
        ({"kvm2": note(gone=[1, 4]), "kvm3": note(("kvm1", 1, 4))}, "kvm1"),
        ({"kvm1": note(gone=[1, 5]), "kvm3": note(("kvm2", 2, 0))}, "kvm2"),
    ],
    ids=[
        "it has it",
        "it removed it",
        "it went away, came back and was removed",
        "it went away and was removed there",
        "it went away, was removed there, and no other host remembers anything",
        "a host that nobody knows to have had it says that it is gone",
        "a host that nobody else knows to have had it says so",
        "only what another host had of it, such as a claim, was removed",
        "what went was an earlier one",
    ],
)
def test_an_instance_is_gone_when_its_last_owner_removed_it(told, last):
    found = put_together(told).known
    assert (found and found.host) == last


@pytest.mark.parametrize("way", [["kvm1", "kvm2"], ["kvm1", "kvm2", "kvm1"], ["kvm1", "kvm2", "kvm3", "kvm2"]])
def test_after_any_way_through_the_fleet_a_delete_leaves_no_owner_behind(tmp_path, way):
    """Every host was told of the first owner by create, and each later one is known to its predecessor alone."""
    stores = {host: Store(str(tmp_path / host)) for host in ("kvm1", "kvm2", "kvm3")}

    def remembered():
        return put_together(
            {host: found[WEB] for host in stores if WEB in (found := whereabouts.recall(stores[host], [WEB]))}
        )

    for store in stores.values():
        whereabouts.remember(store, {"known": {way[0]: {WEB: [1, 3]}}})
    for epoch, (source, destination) in enumerate(zip(way, way[1:]), start=2):
        whereabouts.remember(stores[source], {"known": {destination: {WEB: [epoch, 0]}}})
    latest = remembered()
    assert latest.known.host == way[-1]
    whereabouts.removed(stores[way[-1]], WEB, [len(way), 5])
    assert remembered().known is None, "the run ended before it told the others"
    for store in stores.values():
        whereabouts.remember(store, {"gone": {latest.known.host_uuid: {WEB: list(latest.latest)}}})
    assert remembered().known is None
    del stores[way[-1]]
    assert remembered().known is None, "nor while the host that had it last is silent"


def two_of_one_name(lost, answering=()):
    """web1 was seen on the first kvm1, web2 on the machine that has its name now. Both are silent, but for ``answering``."""
    names = {"id-kvm2": "kvm2", **dict(answering)}
    documents = {name: {"uuid": uuid, "instances": []} for uuid, name in names.items()}
    silent = {} if "id-new" in names else {"kvm1": "UNREACHABLE"}
    notes = {WEB: seen_on("id-old"), WEB2: seen_on("id-new")}
    return Fleet(documents, silent, {"id-kvm2": notes}), lost


def seen_on(host_uuid):
    return {"known": {"host": "kvm1", "host_uuid": host_uuid, "generation": [1, 1]}, "planned": [], "gone": None}


def is_given_up(fleet, lost, uuid):
    try:
        locate(fleet, "web", uuid, lost)
    except (InstanceUnknown, RecordMissing):
        return False
    return True


@pytest.mark.parametrize("uuid", [WEB, WEB2])
def test_a_name_that_several_silent_machines_had_gives_up_none_of_them(uuid):
    fleet, lost = two_of_one_name(["kvm1"])
    for _time in range(2):
        with pytest.raises(HostNameAmbiguous, match="id-new, id-old") as refused:
            locate(fleet, "web", uuid, lost)
        assert refused.value.hint == fleet_hints.lost_by_uuid("kvm1", ["id-new", "id-old"])


@pytest.mark.follows("lost_by_uuid")
@pytest.mark.parametrize(
    "lost, given_up",
    [
        (["kvm1", "id-new"], {"id-new"}),
        (["kvm1", "id-old"], {"id-old"}),
        (["kvm1", "id-new", "id-old"], {"id-new", "id-old"}),
        (["id-new"], set()),
    ],
    ids=["the later", "the first", "both", "no name: kvm1 is silent and may have anything"],
)
def test_a_machine_is_given_up_by_its_uuid_beside_its_name(lost, given_up):
    fleet, lost = two_of_one_name(lost)
    found = {host for host, uuid in (("id-old", WEB), ("id-new", WEB2)) if is_given_up(fleet, lost, uuid)}
    assert found == given_up


def test_a_lost_name_is_that_of_the_silent_machine_where_another_answers_by_it():
    fleet, lost = two_of_one_name(["kvm1"], {"id-new": "kvm1"}.items())
    assert is_given_up(fleet, lost, WEB) and not is_given_up(fleet, lost, WEB2)


def test_a_machine_that_answers_is_not_given_up_by_its_uuid():
    fleet, lost = two_of_one_name(["id-new"], {"id-new": "kvm1"}.items())
    assert not is_given_up(fleet, lost, WEB2)


@pytest.mark.parametrize(
    "lost, refused", [(["kvm1"], True), (["kvm1", "id-new"], True), (["kvm1", "id-old"], False)], ids=str
)
def test_a_side_of_a_move_is_given_up_as_the_machine_that_it_is(lost, refused):
    """web1 moves from kvm2 to the first kvm1; web2 was seen on the machine that has its name now."""
    fleet, lost = two_of_one_name(lost)
    move = {"source": {"name": "kvm2", "uuid": "id-kvm2"}, "destination": {"name": "kvm1", "uuid": "id-old"}}
    view = {"role": "OWN", "generation": [1, 4], "migration": move}
    found = ("kvm2", view, "kvm1", {"role": None, "lost": True})
    if refused:
        with pytest.raises(HostNameAmbiguous):
            sides.check(fleet, WEB, "web1", found, lost)
    else:
        sides.check(fleet, WEB, "web1", found, lost)


@pytest.mark.parametrize("source, destination", [("kvm1", "kvm2"), ("kvm2", "kvm1")])
def test_a_begun_move_whose_sides_have_counted_as_far_goes_on_though_all_know_its_owner(source, destination):
    """In a move both sides use one epoch and count their own writes; a run between has told all who owns it."""
    told = {host: {WEB: note((source, 4, 3))} for host in ("kvm1", "kvm2")}
    documents = {host: {"uuid": host, "instances": []} for host in told}
    sides_of = {"source": {"name": source, "uuid": source}, "destination": {"name": destination, "uuid": destination}}
    here = {"role": "OWN", "generation": [4, 3], "migration": sides_of}
    there = {"role": "IN", "generation": [4, 3], "migration": sides_of}
    sides.check(Fleet(documents, {}, told), WEB, "web1", (source, here, destination, there))


@pytest.mark.parametrize("shown, lost", [(sides.NOTHING, ()), (sides.LOST, ("kvm1",))], ids=["found", "given up"])
@pytest.mark.parametrize("owner, passes", [("kvm1", True), ("kvm3", False)])
@pytest.mark.parametrize(
    "role, moves", [("IN", ("kvm1", "kvm2")), ("OUT", ("kvm1", "kvm2")), ("OUT", ("kvm2", "kvm1"))]
)
def test_the_side_of_a_move_that_was_seen_to_own_it_and_has_no_record_is_left_to_the_plan_of_the_move(
    shown, lost, owner, passes, role, moves
):
    """No record can be made anew in a move: what helps is said by moving.plan, and done once a person gives that side up. Any other
    owner stops the run here."""
    told = {host: {WEB: note((owner, 4, 3))} for host in ("kvm1", "kvm2", "kvm3")}
    documents = {host: {"uuid": host, "instances": []} for host in told}
    sides_of = {part: {"name": host, "uuid": host} for part, host in zip(("source", "destination"), moves)}
    has = {"role": role, "generation": [4, 3], "migration": sides_of}
    views = {"kvm2": has, "kvm1": shown}
    found = (moves[0], views[moves[0]], moves[1], views[moves[1]])
    try:
        sides.check(Fleet(documents, {}, told), WEB, "web1", found, lost)
        refused = False
    except RecordOutdated:
        refused = True
    assert refused is not passes
