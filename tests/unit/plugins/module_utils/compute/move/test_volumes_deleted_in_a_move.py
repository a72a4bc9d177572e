# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A delete in the middle of a move, or of what is left of one, takes no volume that another host has."""

from __future__ import annotations

import itertools
import shutil

import memory_names as memory
import pytest
from memory_names import D, S
from volume_move_case import DB, UUIDS, file_of, files

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import owner, volume
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import startable
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import table
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import IN, OUT, OWN
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import VolumeElsewhere


@pytest.mark.long
def test_a_delete_of_what_a_killed_revert_has_given_back_leaves_the_volume_to_the_source(make_fleet, kill_before):
    ends = []
    for number in itertools.count():
        fleet = make_fleet()
        fleet.went("resize")
        if not kill_before(number, lambda fleet=fleet: fleet.run("revert")):
            break
        if not any(held.op for held in map(fleet.held, fleet.hosts) if held):
            continue  # the revert is over: a delete of what is at rest
        fleet.went("delete")
        ends.append(fleet.roles())
        assert ends[-1] in ({S: (None, OWN)}, {D: (None, OWN)}), "killed before write %d" % number
        (at,) = ends[-1]
        assert fleet.volume(at).spec["instance"] is None and files(fleet) == ["disk.qcow2", "owner"]
        assert volume.delete(fleet.host(at).compute, DB) is True and not file_of(fleet).exists()
    assert {S: (None, OWN)} in ends and {D: (None, OWN)} in ends


def doomed_alone(fleet, goes=False, lost=True, owned_by=UUIDS[D]):
    """A delete on the source, after it has let go: its destination is ``lost``, or answers and has nothing of the move."""
    fleet.went("resize")
    owner.write(fleet.host(S).compute.pool, DB, owned_by, paths.volume)
    source, record = fleet.host(S), fleet.held(S)
    if goes:
        spec = dict(record.spec, volumes=[dict(record.spec["volumes"][0], delete_on_termination=True)])
        source.store.compare_and_swap(record, record.next(spec=spec))
    token = {"op": record.op, "attempt": record.migration["attempt"]}
    table.run(source, memory.UUID, "erase", token, {"role": None, "lost": lost}, lost=True)
    assert fleet.volume(D).role == OWN, "nobody reached it"


def test_a_delete_without_a_lost_destination_leaves_the_volume_to_the_source(fleet):
    doomed_alone(fleet)
    assert fleet.volume(S).role == OWN and fleet.volume(S).spec["instance"] is None and file_of(fleet).exists()
    assert fleet.volume(S).generation > fleet.volume(D).generation
    with pytest.raises(VolumeElsewhere):
        startable.check(fleet.host(D).compute, fleet.held(D))


def test_a_delete_without_a_lost_destination_removes_the_volume_that_goes(fleet):
    doomed_alone(fleet, goes=True)
    assert fleet.volume(S) is None and not file_of(fleet).exists()


@pytest.mark.parametrize("lost, owned_by", [(False, UUIDS[D]), (True, "3" * 8 + UUIDS[D][8:])])
def test_a_delete_of_what_is_left_of_a_move_takes_no_volume_that_went_on(fleet, lost, owned_by):
    """The source was lost while the move was confirmed. It is back, and by now the volume is another instance's."""
    doomed_alone(fleet, goes=True, lost=lost, owned_by=owned_by)
    assert fleet.volume(S) is None and file_of(fleet).exists()
    assert owner.read(fleet.host(S).compute.pool, DB, paths.volume) == owned_by


def test_a_delete_of_what_is_left_on_a_destination_takes_no_volume_that_stayed(fleet):
    """The destination was lost and the move given up. It is back, and the source has deleted the instance and kept the volume."""
    fleet.run("resize", until=lambda: fleet.volume(D))
    there, record = fleet.host(D), fleet.held(D)
    assert record.role == IN and fleet.volume(D).role == IN
    token = {"op": record.op, "attempt": record.migration["attempt"]}
    table.run(there, memory.UUID, "erase", token, {"role": None}, lost=True)
    assert fleet.volume(D) is None and owner.read(there.compute.pool, DB, paths.volume) == UUIDS[S]


def test_a_source_that_is_back_takes_no_volume_that_a_third_host_has(fleet):
    fleet.went("resize")
    third = "3" * 8 + UUIDS[D][8:]
    owner.write(fleet.host(S).compute.pool, DB, third, paths.volume)
    with pytest.raises(VolumeElsewhere):
        fleet.host(S).effects.own_volumes(fleet.held(S))
    assert fleet.volume(S).role == OUT and owner.read(fleet.host(S).compute.pool, DB, paths.volume) == third


def test_a_delete_in_a_move_ends_though_the_files_of_the_volume_are_gone(fleet):
    fleet.went("resize")
    shutil.rmtree(file_of(fleet).parent)
    record = fleet.held(S)
    table.run(fleet.host(S), memory.UUID, "erase", {"op": record.op, "attempt": record.migration["attempt"]}, lost=True)
    assert fleet.volume(S).role == OWN and fleet.volume(S).spec["instance"] is None
