# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A data disk goes only if a person gave it up by its name: the guest releases it, the record forgets it, then its file goes."""

from __future__ import annotations

import copy
import json
import shutil
from xml.etree import ElementTree

import pytest
from instance_case import Case, Killed
from small_disks import make_by_qemu

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DiskChainChanged, DiskNotDetached
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import live_differences, update, update_disks
from ansible_collections.berth.kvm.plugins.module_utils.conductor import drift
from ansible_collections.berth.kvm.plugins.module_utils.model import data_disks
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError, InvalidInput

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
LOGS, SCRATCH, DB = ({"name": name, "size_gb": size} for name, size in (("logs", 2), ("scratch", 3), ("db", 1)))
STEPS = ["disks detach", "disks record", "disks remove"]


class Web(Case):
    """web1 runs with the data disks logs, scratch and db; its inventory names logs and db by now."""

    def params(self, discards, disks):
        spec = {"metadata": {}, **copy.deepcopy(self.record.spec)}
        return {
            "spec": spec,
            "seed": self.seed,
            "disks": disks,
            "volumes": None,
            "only_claim": False,
            "discards": discards,
        }

    def update(self, *discards, disks=(LOGS, DB), killed_at=None):
        params, instance = self.params(list(discards), list(disks)), self.instance(killed_at)
        self.would = update.would_update(self.instance(), params)
        changed = update.update(instance, params)
        self.lines = instance.updates
        return changed

    def files(self):
        return sorted(filter(data_disks.name_of, (path.name for path in self.root.parent.iterdir())))

    def attached(self, text=None):
        devices = ElementTree.fromstring(text or self.domain.xml).iterfind("devices/disk")
        return {each.findtext("serial"): each.find("target").get("dev") for each in devices if each.findtext("serial")}


@pytest.fixture
def web(prepared, wanted, monkeypatch):
    make_by_qemu(prepared, monkeypatch, 20)
    monkeypatch.setattr(update_disks, "TIMEOUT", 0)
    one = Web(prepared, wanted("web1"))
    one.make()
    one.update(disks=(LOGS, SCRATCH, DB))
    return one


ALL = ["data-db.qcow2", "data-logs.qcow2", "data-scratch.qcow2"]
LEFT = ["data-db.qcow2", "data-logs.qcow2"]


def test_what_no_one_gave_up_stays(web):
    assert web.update() is False and web.files() == ALL and len(web.record.spec["disks"]) == 3


@pytest.mark.follows("discard")
def test_what_a_difference_says_of_a_disk_removes_just_that(web):
    said = drift.of_data_disks("web1", data_disks.shown(web.record.spec), {"disks": [LOGS, DB]})
    assert said.endswith("berth.kvm.update --limit web1 -e berth_update_discards=scratch")
    assert web.update(*said.rpartition("=")[2].split(",")) is True and web.files() == LEFT


@pytest.mark.parametrize("runs", [True, False])
def test_what_a_person_gave_up_goes_with_its_room_and_the_others_stay_where_they_are(web, runs):
    places, starts = web.attached(), web.domain.starts
    if not runs:
        web.instance().stopped(1)
    assert (web.update("scratch"), web.would, web.files()) == (True, True, LEFT)
    how = "while the guest runs" if runs else "with the guest off"
    assert web.lines == ["data disk scratch of 3 GiB: removed %s, and all that is on it is gone" % how]
    del places["scratch"]
    assert web.attached() == places and data_disks.shown(web.record.spec) == {"logs": 2, "db": 1}
    assert web.record.resources["disk_gb"] == 1 + 2 + 1 and web.domain.starts == starts
    noted = json.loads(ElementTree.fromstring(web.domain.xml).find("metadata")[0].findtext("{*}record"))
    assert data_disks.shown(noted["spec"]) == {"logs": 2, "db": 1}
    assert (web.update("scratch"), web.would, web.lines) == (False, False, [])


def test_a_new_disk_takes_the_free_place_and_none_moves(web):
    before = web.attached()
    web.update("scratch")
    web.update(disks=(LOGS, DB, {"name": "new", "size_gb": 1}, {"name": "more", "size_gb": 1}))
    after = web.attached()
    assert after["new"] == before["scratch"] and after["db"] == before["db"] and len(set(after.values())) == 5 - 1
    assert live_differences.between(web.record, web.domain.XMLDesc(0), web.domain.xml) == {}
    web.instance().stopped(1)
    web.instance().started("t1", web.seed)
    assert web.attached() == after


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_the_same_again_finishes_it_and_then_changes_nothing(web, step, runs):
    if not runs:
        web.instance().stopped(1)
    with pytest.raises(Killed):
        web.update("scratch", killed_at=step)
    assert "data-scratch.qcow2" in web.files(), "its file goes last"
    assert web.update("scratch") is True and web.files() == LEFT
    assert web.update("scratch") is False and data_disks.shown(web.record.spec) == {"logs": 2, "db": 1}


def test_a_dry_run_names_disk_and_size_and_changes_nothing(web):
    before = web.record
    instance = web.instance()
    assert update.would_update(instance, web.params(["scratch"], [LOGS, DB])) is True
    assert instance.updates == [
        "data disk scratch of 3 GiB: removed while the guest runs, and all that is on it is gone"
    ]
    assert web.record == before and web.files() == ALL


@pytest.mark.parametrize("discards", [["logs"], ["../../x"], ["scratch", "logs"], [""]])
def test_what_the_inventory_names_and_what_is_no_name_is_refused_before_anything_changes(web, discards):
    with pytest.raises(InvalidInput, match="berth_update_discards"):
        web.update(*discards)
    assert web.files() == ALL and len(web.record.spec["disks"]) == 3


def test_a_disk_of_a_snapshot_is_refused_with_the_snapshot(web):
    entry = {
        "name": "s1",
        "made_at": "2026-01-01T00:00:00+00:00",
        "taken": "off",
        "size_gb": 1,
        "disks": ["root", "data-scratch"],
    }
    record = web.record
    web.instance().swap(record.replace(spec={**record.spec, "snapshots": [entry]}))
    with pytest.raises(InvalidInput, match="no snapshot of web1 has; s1") as caught:
        web.update("scratch")
    assert "delete_snapshot --limit web1 -e berth_snapshot=s1" in caught.value.hint and web.files() == ALL


@pytest.mark.follows("unmount")
def test_a_guest_that_does_not_release_a_disk_keeps_it_and_all_that_is_on_it(web):
    web.domain.holds_on = True
    with pytest.raises(BerthError) as refused:
        web.update("scratch")
    assert isinstance(refused.value, DiskNotDetached) and "does not release data disk scratch" in str(refused.value)
    assert web.files() == ALL and len(web.record.spec["disks"]) == 3 and "scratch" in web.attached()
    web.domain.holds_on = False
    assert web.update("scratch") is True and web.files() == LEFT


def test_nothing_goes_while_the_guest_has_other_disks_than_its_record_says(web):
    web.domain.xml = web.domain.xml.replace("data-logs.qcow2", "data-logs.snap")
    with pytest.raises(DiskChainChanged):
        web.update("scratch")
    assert web.files() == ALL


def test_a_file_that_only_a_lost_record_named_goes_if_its_name_was_given(web):
    record = web.record
    web.instance().swap(
        record.replace(spec={**record.spec, "disks": data_disks.without(record.spec["disks"], ["scratch"])})
    )
    assert web.update("scratch") is True and web.files() == LEFT and "scratch" not in web.attached()
