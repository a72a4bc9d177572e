# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may do what with the registry's etcd, with a real member."""

from __future__ import annotations

import etcd_process
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import RegistryRefused, RegistryUnknown
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Scan, Transact, Write
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import keys
from ansible_collections.berth.kvm.plugins.plugin_utils import etcd_users, registry_access, registry_members

pytestmark = pytest.mark.skipif(not etcd_process.IS_HERE, reason="there is no etcd on this machine")


@pytest.fixture
def member(tmp_path):
    with etcd_process.running_with_tls(tmp_path) as running:
        yield running


def engine(member, tmp_path, user):
    return registry_access.engine(member.members, str(tmp_path / "ca"), user)


def put(key):
    return Transact(writes=(Write(key, b"x"),), reads=(key,))


class CutOff(Exception):
    """The run is killed."""


def test_a_controller_reaches_berths_keys_alone_and_nobody_does_without_a_login(member, tmp_path):
    nobody = engine(member, tmp_path, None)
    etcd_users.set_up(nobody, registry_members.passwords(str(tmp_path / "ca")))
    controller = engine(member, tmp_path, registry_access.CONTROLLER)
    assert controller.transact(put(keys.META))["succeeded"] and controller.scan(Scan(keys.PREFIX))["found"]
    for refused in (put("/other"), put("/berth0"), Transact(reads=("/",))):
        with pytest.raises(RegistryRefused):
            controller.transact(refused)
    with pytest.raises(RegistryUnknown):
        nobody.transact(put(keys.META))
    assert engine(member, tmp_path, registry_access.ROOT).transact(put("/other"))["succeeded"]


def test_a_run_that_was_cut_off_anywhere_is_finished_by_the_next(member, tmp_path, monkeypatch):
    ordered, done_before = [], [0]
    order = registry_access.Etcd.order

    def cut_off(own, path, body):
        if len(ordered) == done_before[0]:
            raise CutOff
        ordered.append(path)
        return order(own, path, body)

    passwords = registry_members.passwords(str(tmp_path / "ca"))
    monkeypatch.setattr(registry_access.Etcd, "order", cut_off)
    for done_before[0] in range(1, 8):
        ordered.clear()
        with pytest.raises(CutOff):
            etcd_users.set_up(engine(member, tmp_path, None), {**passwords, registry_access.ROOT: "of the killed run"})
    done_before[0] = None
    etcd_users.set_up(engine(member, tmp_path, None), passwords)
    assert engine(member, tmp_path, registry_access.CONTROLLER).transact(put(keys.META))["succeeded"]
    assert engine(member, tmp_path, registry_access.ROOT).transact(put("/other"))["succeeded"]
