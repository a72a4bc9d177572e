# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data disks as they are asked for, kept in a request and compared (C24)."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import drift
from ansible_collections.berth.kvm.plugins.module_utils.model import data_disks, request_shape
from ansible_collections.berth.kvm.plugins.module_utils.model.catalog_schema import INSTANCE
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError, InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.shape import Fault

LOGS = {"name": "logs", "size_gb": 10, "bus": "virtio"}


def checked(value):
    return INSTANCE["berth_disks"].check(value, "berth_disks")


@pytest.mark.parametrize("given", [{"logs": {"size_gb": 10}, "db": {"size_gb": 2, "bus": "scsi"}},
                                   [{"name": "logs", "size_gb": 10}, {"name": "db", "size_gb": 2, "bus": "scsi"}]])  # fmt: skip
def test_disks_are_given_by_name_or_as_a_list_and_keep_their_order(given):
    assert [(disk["name"], disk["size_gb"], disk["bus"]) for disk in checked(given)] == [
        ("logs", 10, None),
        ("db", 2, "scsi"),
    ]


@pytest.mark.parametrize(
    "given, field",
    [
        ([{"name": "a", "size_gb": 0}], "berth_disks.a.size_gb"),
        ([{"name": "a", "size_gb": -1}], "berth_disks.a.size_gb"),
        ([{"name": "a", "size_gb": 1 << 40}], "berth_disks.a.size_gb"),
        ([{"name": "a", "size_gb": "1"}], "berth_disks.a.size_gb"),
        ([{"name": "a", "size_gb": True}], "berth_disks.a.size_gb"),
        ([{"name": "a"}], "berth_disks.a.size_gb"),
        ([{"size_gb": 1}], "berth_disks[0]"),
        ([{"name": "a", "size_gb": 1}, {"name": "a", "size_gb": 2}], "berth_disks.a"),
        ([{"name": "../a", "size_gb": 1}], "berth_disks: name"),
        ([{"name": "A", "size_gb": 1}], "berth_disks: name"),
        ([{"name": "a" * 21, "size_gb": 1}], "berth_disks: name"),
        ([{"name": "a", "size_gb": 1, "bus": "ide"}], "berth_disks.a.bus"),
        ([{"name": "a", "size_gb": 1, "pool": "fast"}], "berth_disks.a.pool"),
        ([{"name": "d%d" % at, "size_gb": 1} for at in range(17)], "berth_disks"),
        ("logs", "berth_disks"),
        (7, "berth_disks"),
    ],
    ids=str,
)  # fmt: skip
def test_what_no_disk_can_be_is_refused_by_its_field(given, field):
    with pytest.raises(BerthError) as caught:
        checked(given)
    assert caught.value.field == field


def test_all_faults_are_told_at_once_with_what_was_meant():
    with pytest.raises(BerthError) as caught:
        checked([{"name": "a", "size_gb": 0}, {"name": "b", "sise_gb": 1}])
    said = str(caught.value.to_dict())
    assert "berth_disks.a.size_gb" in said and "Did you mean size_gb?" in said


@pytest.mark.parametrize(
    "wrong",
    [{"name": "../../etc/x"}, {"name": "a/b"}, {"name": ""}, {"name": None}, {"size_gb": 0}, {"size_gb": "9"}, {"bus": "x"},
     {"bus": None}],
    ids=str,
)  # fmt: skip
def test_a_host_makes_no_file_of_a_name_that_is_none_whoever_sent_it(wrong):
    disk = {**LOGS, **wrong}
    with pytest.raises(InvalidInput):
        data_disks.check({"disks": [disk]})
    with pytest.raises(Fault):
        request_shape.disk(disk)


def test_a_host_refuses_one_name_twice():
    with pytest.raises(InvalidInput, match="once"):
        data_disks.check({"disks": [LOGS, LOGS]})


def test_a_request_of_before_there_were_data_disks_has_none():
    assert data_disks.check({}) == [] and data_disks.total_gb({}) == 0 and data_disks.shown({}) == {}


FOLLOW = ". Run berth.kvm.update_disks --limit web1"


@pytest.mark.follows("update_disks_to_follow")
@pytest.mark.parametrize(
    "has, wanted, said",
    [
        ({"a": 1}, {"a": 1}, None),
        ({}, {"a": 1}, "has no data disk a" + FOLLOW),
        ({"a": 1}, {"a": 2}, "has data disk a of 1 GiB, not 2" + FOLLOW),
        (
            {"a": 1, "b": 1},
            {},
            "has data disk a, which stays although the inventory does not name it, "
            "data disk b, which stays although the inventory does not name it. To give up what is on a and b and remove it, "
            "run berth.kvm.update --limit web1 -e berth_update_discards=a,b",
        ),
        ({"a": 2}, {"a": 1}, "has data disk a of 2 GiB, which does not shrink to 1"),
    ],
    ids=str,
)
def test_what_the_inventory_says_otherwise_is_told_and_what_follows_it_brings_just_that(has, wanted, said):
    asked = {"disks": [{"name": name, "size_gb": size} for name, size in wanted.items()]}
    assert drift.of_data_disks("web1", has, asked) == said
    if said and said.endswith(FOLLOW):
        merged = data_disks.merged([{"name": name, "size_gb": size} for name, size in has.items()], asked["disks"])
        assert drift.of_data_disks("web1", data_disks.shown({"disks": merged}), asked) is None
