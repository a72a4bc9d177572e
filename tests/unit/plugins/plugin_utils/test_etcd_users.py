# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may do what with the registry's etcd, with a real member."""

from __future__ import annotations

import etcd_process
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.host import registry_reading
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import RegistryRefused, RegistryUnknown
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Scan, Transact, Write
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import keys
from ansible_collections.berth.kvm.plugins.plugin_utils import registry_access, registry_members

UUID, OTHER = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a", "11111111-3c6e-5d59-9d0b-3a1c9d7f1e2a"
HOST = registry_access.HOST
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
    registry_members.set_up_users(nobody, registry_members.passwords(str(tmp_path / "ca")))
    controller = engine(member, tmp_path, registry_access.CONTROLLER)
    assert controller.transact(put(keys.META))["succeeded"] and controller.scan(Scan(keys.PREFIX))["found"]
    for refused in (put("/other"), put("/berth0"), Transact(reads=("/",))):
        with pytest.raises(RegistryRefused):
            controller.transact(refused)
    with pytest.raises(RegistryUnknown):
        nobody.transact(put(keys.META))
    assert engine(member, tmp_path, registry_access.ROOT).transact(put("/other"))["succeeded"]


def test_a_host_reads_who_owns_instances_and_nothing_else_and_writes_nothing(member, tmp_path, monkeypatch):
    directory = str(tmp_path / "ca")
    passwords = registry_members.passwords(directory)
    registry_members.set_up_users(engine(member, tmp_path, None), passwords)
    entry = {**keys.new_instance("web1", "default"), "owner": UUID, "epoch": 3}
    meta = {"schema": keys.SCHEMA, "incarnation": "one", "kind": "etcd", "open": True}
    written = (keys.written(keys.META, meta), keys.written(keys.instance(UUID), entry))
    engine(member, tmp_path, registry_access.CONTROLLER).transact(Transact(writes=written))
    (tmp_path / "host.pem").write_text(registry_members.certificate_of_hosts(directory, dry=False))
    own = registry_access.authority_in(directory)
    settings = {"members": member.members, "user": HOST, "password": passwords[HOST], "authority": own.text}
    monkeypatch.setattr(registry_reading, "PAUSE", 0.01)
    registry = registry_reading.Registry(settings, str(tmp_path / "host.pem"), 10)
    known = registry.read([UUID, OTHER])
    assert known.is_open and known.entries == {UUID: entry} and known.mark["incarnation"] == "one"
    assert known.mark["revision"] >= 1 and registry.read([]).entries == {}
    host = registry_access.Etcd(member.members, registry.tls, (HOST, passwords[HOST]))
    for refused in (put(keys.META), put(keys.instance(UUID)), Transact(reads=(keys.quota("default"),))):
        with pytest.raises(RegistryRefused):
            host.transact(refused)
    member.kill()
    registry.wait = 0
    with pytest.raises(registry_reading.RegistrySilent, match="127.0.0.1"):
        registry.read([UUID])


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
    for done_before[0] in range(1, 13):
        ordered.clear()
        with pytest.raises(CutOff):
            registry_members.set_up_users(
                engine(member, tmp_path, None), {**passwords, registry_access.ROOT: "of the killed run"}
            )
    done_before[0] = None
    registry_members.set_up_users(engine(member, tmp_path, None), passwords)
    assert engine(member, tmp_path, registry_access.CONTROLLER).transact(put(keys.META))["succeeded"]
    assert engine(member, tmp_path, registry_access.ROOT).transact(put("/other"))["succeeded"]
