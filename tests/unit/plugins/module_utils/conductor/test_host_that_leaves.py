# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host that leaves the fleet remembers goes on to count: no second copy, and no backup that is newer (I1)."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest
from fleet_case import WEB, Fleet, moved
from procedure_case import driven

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import remove_host

LISTED = [pytest.param([WEB], id="in the inventory"), pytest.param([], id="in no inventory")]


def leaves(fleet, name, listed=(WEB,)):
    """What berth.kvm.remove_host has the others remember. ``listed``: the instances of the inventory."""

    def answer_of(step):
        method = {"host_facts": "facts", "rescan": "rescan"}[step.module]
        return {host: getattr(fleet.hosts[host], method)(**given) for host, given in step.arguments.items()}

    driven(remove_host.pass_on(fleet.read(listed), name), answer_of)
    del fleet.inventory[name]


@pytest.mark.parametrize(
    "owner, leaving",
    [("h1", ["h1"]), ("h2", ["h1", "h2"]), ("h2", ["h2", "h1"]), ("h2", ["h1"])],
    ids=[
        "its only host",
        "its first host, then its last",
        "its last host, then its first",
        "its first, after the last",
    ],
)
@pytest.mark.parametrize("listed", LISTED)
def test_what_is_made_anew_after_its_hosts_were_removed_is_later_than_their_backups(
    fleet, tmp_path, owner, leaving, listed
):
    """It was moved to its last host, or not, and deleted there. That host comes back as it was before the delete."""
    assert fleet.run() is None
    if owner == "h2":
        moved(fleet, "h1", "h2")
        assert fleet.run() is None
    home, backup = fleet.hosts[owner], tmp_path / "backup"
    shutil.copytree(home.store.state_dir, backup)
    identity = Path(home.store.identity_copy).read_bytes()
    fleet.delete()
    deleted = whereabouts.recall(home.store, [WEB])[WEB]["gone"]
    for name in fleet.inventory:
        fleet.hosts[name].rescan((), {"gone": {home.uuid: {WEB: deleted}}})
    if owner not in leaving:
        del fleet.inventory[owner]  # it broke down
    for name in leaving:
        leaves(fleet, name, listed)
    assert fleet.run(prefer=("h3",)) is None and fleet.owners() == ["h3"]
    shutil.rmtree(home.store.state_dir)
    shutil.copytree(backup, home.store.state_dir)
    Path(home.store.identity_copy).write_bytes(identity)
    fleet.inventory[owner] = home
    assert fleet.hosts["h3"].record().generation[0] > home.record().generation[0]
    if len(fleet.inventory) > 2:  # else h3 alone knows that it has the instance
        fleet.silence("h3")
        assert fleet.run() == "RecordOutdated" and fleet.owners() == ["h3"]


@pytest.mark.parametrize("listed", LISTED)
def test_what_only_a_host_that_left_knew_to_be_planned_on_a_silent_host_is_not_made_twice(tmp_path, listed):
    """The run that made it was killed before it told so, and h3 was silent then."""
    for stop in itertools.count(1):
        fleet = Fleet(tmp_path / str(stop))
        fleet.silence("h3")
        done = list(itertools.islice(fleet.create(prefer=("h2", "h1")), stop))
        fleet.silence("h2")
        leaves(fleet, "h1", listed)
        fleet.run(prefer=("h3",))
        if len(done) < stop:
            assert fleet.owners() == ["h2"]
            return


def test_an_owner_is_not_stopped_by_what_a_host_that_left_remembers_of_it(fleet):
    """A plan to make it on a silent host would otherwise count as one to make its successor."""
    assert fleet.run() is None
    moved(fleet, "h1", "h2")
    assert fleet.run() is None
    fleet.hosts["h2"].rescan(
        (), {"hosts": {"id-h3": "h3"}, "planned": [{"uuid": WEB, "host_uuid": "id-h3", "run": "r0"}]}
    )
    leaves(fleet, "h1")
    fleet.silence("h3")
    assert fleet.run() is None and fleet.owners() == ["h2"]


NOTES = {
    "known": {"hosts": {"id-h3": "h3"}, "known": {"id-h3": {WEB: [3, 2]}}},
    "planned": {"hosts": {"id-h3": "h3"}, "planned": [{"uuid": WEB, "host_uuid": "id-h3", "run": "r0"}]},
    "after": {"after": {WEB: 4}},
    "gone": {"gone": [5, 1]},
    "left": {"left": [6, 1]},
}


@pytest.mark.parametrize("kinds", [kinds for size in (1, 2, 5) for kinds in itertools.combinations(NOTES, size)])
def test_of_an_instance_in_no_inventory_the_others_learn_what_they_learn_of_one_that_is_listed(tmp_path, kinds):
    """Whichever notes the host that leaves has of it."""
    learned = []
    for listed in ([WEB], []):
        fleet = Fleet(tmp_path / str(len(listed)))
        store = fleet.hosts["h1"].store
        for kind in kinds:
            whereabouts._change(store, lambda notes, kind=kind: note(notes, kind))
        leaves(fleet, "h1", listed)
        learned.append([whereabouts.recall(fleet.hosts[name].store, [WEB]) for name in ("h2", "h3")])
        assert fleet.read().notes_on(WEB).latest[0] == max(EPOCHS.get(kind, 0) for kind in kinds)
    assert learned[0] == learned[1] and all(learned[0])


EPOCHS = {"known": 3, "after": 4, "gone": 5, "left": 6}


def note(notes, kind):
    if kind in ("gone", "left"):
        getattr(notes, kind)[WEB] = tuple(NOTES[kind][kind])
    else:
        notes.take_in(NOTES[kind])
