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

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.conductor import telling


def leaves(fleet, name):
    """What berth.kvm.remove_host has the others remember."""
    told = telling.remembered_by(fleet.read(), name)
    del fleet.inventory[name]
    for host in fleet.inventory.values():
        host.rescan((), told)


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
def test_what_is_made_anew_after_its_hosts_were_removed_is_later_than_their_backups(fleet, tmp_path, owner, leaving):
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
        leaves(fleet, name)
    assert fleet.run(prefer=("h3",)) is None and fleet.owners() == ["h3"]
    shutil.rmtree(home.store.state_dir)
    shutil.copytree(backup, home.store.state_dir)
    Path(home.store.identity_copy).write_bytes(identity)
    fleet.inventory[owner] = home
    assert fleet.hosts["h3"].record().generation[0] > home.record().generation[0]
    if len(fleet.inventory) > 2:  # else h3 alone knows that it has the instance
        fleet.silence("h3")
        assert fleet.run() == "RecordOutdated" and fleet.owners() == ["h3"]


def test_what_only_a_host_that_left_knew_to_be_planned_on_a_silent_host_is_not_made_twice(tmp_path):
    """The run that made it was killed before it told so, and h3 was silent then."""
    for stop in itertools.count(1):
        fleet = Fleet(tmp_path / str(stop))
        fleet.silence("h3")
        done = list(itertools.islice(fleet.create(prefer=("h2", "h1")), stop))
        fleet.silence("h2")
        leaves(fleet, "h1")
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
