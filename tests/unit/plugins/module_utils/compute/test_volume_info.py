# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host tells the history of the volumes that it is asked about (C26)."""

from __future__ import annotations

import shutil

import pytest
from volume_case import DB, make_house, named

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import volume
from ansible_collections.berth.kvm.plugins.modules.volume_info import read, read_deleted

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")


def test_a_host_tells_what_happened_to_a_volume_and_leaves_out_what_it_does_not_have(prepared, wanted, monkeypatch):
    house = make_house(prepared, wanted, monkeypatch)
    web = house.guest()
    web.make(named(new=True), named("logs", 1, new=True))
    web.update()
    (told,) = read(house.host.store, [DB, "2f3c0d8e-9a71-5b1c-8a55-0f6f0d3f7c11"])
    assert (told["uuid"], told["image"], told["generation"]) == (DB, None, list(house.volume().generation))
    assert [event["event"] for event in told["history"]] == ["claim", "build", "used", "detach"]


def test_it_names_the_image_of_a_volume_as_text_that_may_be_shown(prepared, wanted, monkeypatch):
    house = make_house(prepared, wanted, monkeypatch)
    house.guest().make(named(new=True))
    has = house.volume()
    house.store.compare_and_swap(has, has.next(spec=dict(has.spec, source_image="deb\x1b{{ian")))
    (told,) = read(house.host.store, [DB])
    assert told["image"] == "deb??{ian"


def test_the_history_of_a_volume_outlives_it_on_the_host_that_deleted_it(prepared, wanted, monkeypatch):
    house = make_house(prepared, wanted, monkeypatch)
    web = house.guest()
    web.make(named(new=True), named("logs", 1, new=True))
    web.update()
    assert read_deleted(house.host.store, [DB]) == []
    assert volume.delete(house.host, DB)
    (told,) = read_deleted(house.host.store, [DB, "2f3c0d8e-9a71-5b1c-8a55-0f6f0d3f7c11"])
    assert told["uuid"] == DB and told["faults"] == []
    assert [event["event"] for event in told["history"]] == ["claim", "build", "used", "detach", "delete"]
    assert read(house.host.store, [DB]) == []


def test_a_volume_that_was_only_claimed_leaves_no_history(prepared, wanted, monkeypatch):
    house = make_house(prepared, wanted, monkeypatch)
    house.guest().claim(named(new=True))
    has = house.volume()
    house.store.compare_and_swap(has, None)
    assert read_deleted(house.host.store, [DB]) == []
