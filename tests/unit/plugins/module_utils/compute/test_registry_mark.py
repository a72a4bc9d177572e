# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host takes claims, builds and moves only from runs over the registry that it belongs to."""

from __future__ import annotations

import os

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import registry_mark
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.registry_mark import (
    RegistryBehind,
    RegistryDiffers,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.state_file import StateDamaged
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store

ONE = {"kind": "etcd", "incarnation": "one", "revision": 100}
TWO = {**ONE, "incarnation": "two"}
HOST = os.uname().nodename


@pytest.fixture
def store(tmp_path):
    yield Store(str(tmp_path / "berth"))
    registry_mark.act_over(None)


def marked(store, mark):
    with store.host_lock():
        registry_mark.keep(store, mark)


@pytest.mark.parametrize(
    "mark, given, refused",
    [
        (None, None, None),
        (None, ONE, RegistryDiffers),
        (ONE, None, RegistryDiffers),
        (ONE, TWO, RegistryDiffers),
        (ONE, {**ONE, "kind": "postgresql"}, RegistryDiffers),
        (ONE, {**TWO, "revision": 200}, RegistryDiffers),
        (ONE, {**ONE, "revision": 99}, RegistryBehind),
        (ONE, ONE, None),
        (ONE, {**ONE, "revision": 101}, None),
    ],
)
def test_a_host_takes_only_what_comes_over_its_own_registry(store, mark, given, refused):
    if mark:
        marked(store, mark)
    registry_mark.act_over(given)
    if refused is None:
        registry_mark.check(store)
        return
    with pytest.raises(refused) as said:
        registry_mark.check(store)
    assert HOST in said.value.message and said.value.hint
    assert all(each["incarnation"] in said.value.message for each in (mark, given) if each)
    assert said.value.retryable is (refused is RegistryBehind)


def test_a_claim_lets_the_host_remember_the_revision_and_check_mode_does_not(store):
    marked(store, ONE)
    registry_mark.act_over({**ONE, "revision": 120})
    with store.host_lock():
        registry_mark.check_and_advance(store, dry=True)
    assert registry_mark.read(store.state_dir) == ONE
    with store.host_lock():
        registry_mark.check_and_advance(store, dry=False)
    assert registry_mark.read(store.state_dir)["revision"] == 120
    registry_mark.act_over(ONE)
    with store.host_lock(), pytest.raises(RegistryBehind, match="has seen revision 120 .* read revision 100"):
        registry_mark.check_and_advance(store, dry=False)


def test_a_host_that_has_left_its_registry_takes_what_comes_without_one(store):
    marked(store, ONE)
    marked(store, None)
    registry_mark.check(store)
    assert registry_mark.reported(store.state_dir) == {}


def test_a_damaged_mark_is_no_missing_one(store):
    marked(store, ONE)
    with open("%s/registry.json" % store.state_dir, "w") as file:
        file.write('{"kind": "etcd"}')
    with pytest.raises(StateDamaged, match="registry.json"):
        registry_mark.check(store)
