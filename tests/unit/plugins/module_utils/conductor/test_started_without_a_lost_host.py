# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An older copy of an instance runs without the lost host that had it last: when that host is back, it owns nothing (I1)."""

from __future__ import annotations

import itertools

import pytest
from fleet_case import SUBSETS, Fleet, record_lost

from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError


def owner_is_lost(top):
    """h2 had it last, made anew when h1 was given up, or by a run that was killed before it told so. Now h1 is back."""
    fleet = Fleet(top)
    assert fleet.run() is None
    switched_off(fleet, "h1")
    assert fleet.run(lost=["h1"]) is None and fleet.owners() == ["h2"]
    switched_off(fleet, "h2")
    return fleet


def planned_owner_is_lost(top):
    """As above, but the run that made it on h2 was killed before it told so."""
    for stop in itertools.count(1):
        fleet = Fleet(top / str(stop))
        assert fleet.run() is None
        switched_off(fleet, "h1")
        list(itertools.islice(fleet.create(prefer=("h2", "h3"), lost=["h1"]), stop))
        if fleet.owners() == ["h2"]:
            switched_off(fleet, "h2")
            return fleet


def switched_off(fleet, name):
    fleet.silence(name)
    fleet.hosts[name].runs = False


def code_of(work, *args, **more):
    """The code of the error of a run, or None."""
    try:
        work(*args, **more)
    except BerthError as error:
        return error.code
    return None


# Not where the lost host answers alone: of those that remember the latest record, one answers.
SILENT = [(), *(names for names in SUBSETS if names != ("h1", "h3"))]


@pytest.mark.follows("make_latest")
@pytest.mark.parametrize("silent", SILENT, ids="+".join)
@pytest.mark.parametrize("before", [owner_is_lost, planned_owner_is_lost], ids=["known", "planned"])
@pytest.mark.parametrize("how", ["start", "create"])
def test_whoever_is_silent_when_the_lost_host_is_back_there_is_one_guest(tmp_path, how, before, silent):
    fleet = before(tmp_path)

    def works(lost=()):
        return fleet.run(lost=lost) if how == "create" else code_of(fleet.start, lost)

    assert works(["h2"]) == "RecordOutdated" and fleet.owners() == [], "it would count as the older one"
    fleet.recover_record(["h2"])
    assert works(["h2"]) is None and fleet.owners() == ["h1"]
    fleet.silence(*silent)
    for _time in range(2):
        works()
        fleet.run(prefer=("h2", "h3"))
        fleet.check()
        assert fleet.owners() == ["h1"]
    fleet.silence()
    assert works() == "DuplicateInstance"
    assert fleet.hosts["h1"].record().generation[0] > fleet.hosts["h2"].record().generation[0]


@pytest.mark.follows("delete_older")
@pytest.mark.parametrize("phase", ["building", "deleting"])
def test_an_older_copy_that_is_not_at_rest_is_deleted_and_made_anew(tmp_path, phase):
    """recover_record takes no such record for the latest."""
    fleet = owner_is_lost(tmp_path)
    half = fleet.hosts["h1"].record().replace(phase=phase)
    record_lost(fleet, "h1")
    fleet.hosts["h1"].store.restore(half)
    assert fleet.run(lost=["h2"]) == "RecordOutdated" and fleet.owners() == []
    assert "run berth.kvm.delete --limit web1 -e berth_lost_hosts=h2" in fleet.hint
    assert fleet.delete(["h2"]) == ["h1"] and fleet.run(lost=["h2"]) is None
    made = fleet.owners()
    assert fleet.hosts[made[0]].record().generation[0] > fleet.hosts["h2"].record().generation[0]
