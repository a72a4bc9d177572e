# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with instances and volumes: what tests do to them, and what they look at."""

from __future__ import annotations

import shutil
from xml.etree import ElementTree

import pytest
from instance_case import Case, Killed
from small_disks import make_by_qemu

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import new_volume
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.update_disks import update_disks
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import claim, journal
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.volume_store import (
    VolumeStore,
    confirmed_gb,
)
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid

NEEDS_QEMU_IMG = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
DB = volume_uuid("default", "db")


def named(name="db", slot=0, size_gb=2, goes=False, **more):
    return {"name": name, "size_gb": size_gb, "delete_on_termination": goes, "slot": slot, **more}


def kill_before_write(monkeypatch, event):
    """The process ends before a record is written with ``event``, the first time."""
    noted, waiting = journal.noted, [event]

    def killed(record, name, **details):
        if name in waiting:
            raise Killed(waiting.pop())
        return noted(record, name, **details)

    monkeypatch.setattr(journal, "noted", killed)


class Guest(Case):
    """An instance on a host of 10 GiB; its root disk takes 1."""

    def try_to_claim(self, *entries, token="t1"):
        self.spec.update(pool="berth", volumes=list(entries))
        return claim.claim_all(self.host, [{"spec": self.spec, "token": token}])[0]

    def claim(self, *entries, token="t1"):
        result = self.try_to_claim(*entries, token=token)
        if result["error"]:
            raise BerthError("%(code)s: %(message)s" % result["error"])

    def make(self, *entries, killed_at=None):
        self.claim(*entries)
        return self.go_on(killed_at)

    def go_on(self, killed_at=None):
        return self.instance(killed_at).made("t1", self.seed)

    def update(self, *entries, killed_at=None):
        """What update_disks does: first it claims what grows."""
        own = VolumeStore.beside(self.host.store)
        for entry in entries:
            has = own.read(volume_uuid("default", entry["name"]))
            if has is not None and entry["size_gb"] > confirmed_gb(has):
                wanted = {"name": entry["name"], "size_gb": entry["size_gb"], "instance": self.uuid}
                new_volume.claim_growth(self.host, wanted, "t9")
                new_volume.confirm_growth(self.host, has.uuid, "t9")
        return update_disks(self.instance(killed_at), [], list(entries))

    def delete(self, killed_at=None):
        return self.instance(killed_at).absent()

    def named_by_guest(self):
        return [element.text for element in ElementTree.fromstring(self.domain.xml).iterfind("devices/disk/serial")]


class House:
    """A host, its instances, its volumes."""

    def __init__(self, host, wanted):
        self.host, self.wanted = host, wanted
        self.store = VolumeStore.beside(host.store)

    def guest(self, name="web1"):
        return Guest(self.host, self.wanted(name))

    def volume(self, uuid=DB):
        return self.store.read(uuid)

    def file(self, uuid=DB):
        return self.host.pool / "volumes" / uuid / "disk.qcow2"

    def has(self, uuid=DB):
        """(phase, name of the instance or None, whether the file is there) of the volume, None where there is no record."""
        record = self.volume(uuid)
        assert record or not self.file(uuid).exists()
        return record and (record.phase, (record.spec["instance"] or {}).get("name"), self.file(uuid).exists())


def make_house(host, wanted, monkeypatch):
    """A House whose disks are made by qemu-img and whose host has 10 GiB."""
    make_by_qemu(host, monkeypatch, 10)
    return House(host, wanted)
