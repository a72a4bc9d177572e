# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of create, update_disks, delete and delete_volume over hosts with volumes, one call to a host at a time. The conductor,
the records and the steps on the hosts are the real ones; disks are headers of qcow2."""

from __future__ import annotations

import copy
import itertools
import os
import struct

import fake_libvirt
import procedure_case
from volume_case import House

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import update_disks
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.instance import Instance
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import facts
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import claim, state_directory, whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.conductor import (
    closing_table,
    new_volumes,
    quotas,
    volume_hosts,
    what_to_operate,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor import plan as rounds
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import read_fleet
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import create, delete, locate, plan_create
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import update_disks as procedure
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry.embedded import Embedded
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.quota import QuotaExceeded
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid
from ansible_collections.berth.kvm.plugins.modules import rescan
from ansible_collections.berth.kvm.plugins.modules import volume as volume_module

INSTANCES = ("web1", "web2", "web3")


def make_disk(planned, path, _base):
    """A file that says its size, as the headers of qcow2 do."""
    form = planned.format if planned.format == "qcow2" else "raw"
    with open(path, "wb") as stream:
        stream.write(header(planned.size or 1 << 20) if form == "qcow2" else b"raw")


def header(size):
    head = bytearray(112)
    head[:8], head[24:32] = b"QFI\xfb" + struct.pack(">I", 3), struct.pack(">Q", size)
    head[100:104] = struct.pack(">I", 104)
    return bytes(head)


def make_sites(make_host, wanted, monkeypatch, names=("kvm1", "kvm2"), kind=None):
    """{name: Site}, or one of another ``kind``, each with 60 GiB; growing a disk writes the header of its file."""

    def collect(_connection, _settings, records, *_args, volumes=(), **_kwargs):
        used = sum(record.resources.get("disk_gb", 0) for record in [*records, *volumes])
        return {"host": "kvm", "uuid": fake_libvirt.HOST_UUID, "vcpus": 40, "memory_mb": 4096, "local_gb": 60,
                "local_gb_used": used, "instances": [], "num_instances": 0, "pool": "berth",
                "pools": {"berth": {"type": "dir"}}}  # fmt: skip

    def resize_on(domain, path, size, _flags):
        resize_file(path, size)
        domain.resized[path] = size

    monkeypatch.setattr(disk, "make", make_disk)
    monkeypatch.setattr(facts, "collect", collect)
    monkeypatch.setattr(update_disks, "run", lambda command, **_how: resize_file(command[-2], int(command[-1])))
    monkeypatch.setattr(fake_libvirt.FakeDomain, "blockResize", resize_on)
    monkeypatch.setattr(os, "fsync", lambda _fd: None)
    uuids = {name: fake_libvirt.HOST_UUID.replace("11111111", str(at) * 8) for at, name in enumerate(names, 1)}
    return {name: (kind or Site)(make_host(name, uuid), wanted) for name, uuid in uuids.items()}


def resize_file(path, size):
    with open(path, "r+b") as stream:
        stream.seek(24)
        stream.write(struct.pack(">Q", size))


class Site(House):
    """A host as the playbooks meet it."""

    about = [instance_uuid("default", name) for name in INSTANCES]

    def __init__(self, host, wanted):
        super().__init__(host, wanted)
        state_directory.establish(host.store)
        self.up, self.name = True, host.connection.getHostname()

    def facts(self):
        host = self.host
        records, states = host.store.records(), dict(host.connection.domains)
        instances = [
            {"foreign": False, "flavor": record.spec["flavor"], "group": None, "uuid": record.uuid, "name": record.name,
             "project_id": "default", "vcpus": 1, "memory_mb": 64, "nics": [], "pool": record.spec.get("pool")}
            | {key: getattr(record, key) for key in ("role", "phase", "vm_state", "task_state", "power_state")}
            | {"generation": list(record.generation)}
            for record in records
        ]  # fmt: skip
        known = {record.uuid for record in records}
        instances += [
            {"foreign": True, "uuid": uuid, "name": uuid, "managed": True, "power_state": "running"}
            for uuid in states
            if uuid not in known
        ]
        found = [facts._volume(each, "berth", records, states) for each in self.store.records()]
        return {
            "document": {"uuid": host.uuid, "instances": instances, "volumes": found, "host": self.name},
            "notes": whereabouts.recall(host.store, self.about),
        }

    def claim(self, claims, withdraw=()):
        claim.withdraw_all(self.host, withdraw)
        return {"results": claim.claim_all(self.host, list(claims))}

    def rescan(self, about=(), told=None):
        return rescan.exchange(self.host.store, self.host.uuid, about, told or {})

    def build(self, uuid, token, seed):
        changed = Instance(self.host, uuid, timeout=1).made(token, seed)
        return {"changed": changed, "instance": {"generation": list(self.host.store.read(uuid).generation)}}

    def delete(self, uuid, after):
        return {"changed": Instance(self.host, uuid, timeout=1).absent(after=after)}

    def update(self, uuid, wanted):
        return {"changed": update_disks.update_disks(Instance(self.host, uuid, timeout=1), [], wanted)}

    def volume_task(self, **params):
        asked = {"state": "absent", "token": None, "volume": None, "grows": False, **params}
        return {"changed": volume_module.act(self.host, asked, False), "uuid": params["uuid"]}


def call(site, method, *args, **more):
    """The host's answer as the controller sees it."""
    if not site.up:
        return {"reason": "UNREACHABLE"}
    try:
        return copy.deepcopy(getattr(site, method)(*copy.deepcopy(args), **copy.deepcopy(more)))
    except BerthError as error:
        return {"error": error.to_dict(), "reason": str(error)}


class MakesVolumes:
    """How update_disks has volumes made, for a fleet with ``hosts``, ``lost``, ``rebuilt``, ``quotas``, ``entries`` and
    ``new_token``."""

    def _volumes_of(self, seen, names):
        """As of locate.Run.more: each instance is to have these volumes."""

        def more(name, task):
            more = {"pool": None, "boot_index": None}
            wanted = [{**entry, **more, "uuid": volume_uuid("default", entry["name"])} for entry in self.entries(names)]
            found = new_volumes.wanted_by(
                seen, name, task, wanted, self.lost, self.rebuilt, image_of=lambda _volume: None
            )
            return {"project": "default", "disks": [], **found}

        return more

    def _run_of_disks(self):
        return procedure.Run(self.new_token, self.hosts(), self.lost, self.quotas)


def answers_of(module, given):
    """(method of a Site, its arguments) for what a procedure asks."""
    if module == "volume":
        parts = {"pool": None, "image": None, **given["volume"]} if "volume" in given else None
        return "volume_task", {**given, "volume": parts}
    if given.get("state") == "disks_updated":
        return "update", {"uuid": given["uuid"], "wanted": given["volumes"]}
    if given.get("state") == "absent":
        return "delete", {"uuid": given["uuid"], "after": given["after"]}
    return module, given


class Fleet(MakesVolumes):
    """``defined``: volume -> GiB, as berth_volumes_defined; ``quota`` of the project. A run is a generator that stops after each
    call to a host, and returns its error or whether it changed anything."""

    def __init__(self, sites, wanted, defined, quota=None):
        self.sites, self.wanted, self.defined = sites, wanted, defined
        self.quotas = {"default": quota} if quota else {}
        self.numbers = itertools.count(1)
        self.lost = self.rebuilt = ()

    def read(self):
        reports = {}
        for name, site in self.sites.items():
            reports[name] = call(site, "facts")
            yield
        return read_fleet({name: report if "document" in report else {"reason": report["reason"]}
                           for name, report in reports.items()}, dict)  # fmt: skip

    def hosts(self):
        return list(self.sites)

    def ask(self, host, method, *args, **more):
        reply = call(self.sites[host], method, *args, **more)
        yield
        return reply

    def new_token(self):
        return "t%031d" % next(self.numbers)

    def entries(self, names):
        return [{"name": name, "size_gb": self.defined[name], "delete_on_termination": False} for name in names]

    def create(self, name, names=(), prefer=None, goes=()):
        spec, seed = self.wanted(name)
        spec["pool"] = "berth"
        spec["volumes"] = [
            {**entry, "delete_on_termination": entry["name"] in goes, "slot": slot}
            for slot, entry in enumerate(self.entries(names))
        ]
        seen = yield from self.read()
        wanted = plan_create.Wanted(
            run="r%d" % next(self.numbers),
            requests={name: plan_create.Request(spec)},
            lost=self.lost,
            strict=True,
            needs_majority=False,
            rebuilt=self.rebuilt,
            quotas=self.quotas,
        )
        placed = plan_create.to_place(wanted, seen)
        instance = placed.instances[name]
        if "state" not in instance:
            self._place(instance, seen, prefer or list(self.sites))
        planning = plan_create.begin(wanted, placed, seen, 3, self.new_token, {})
        plan = yield from procedure_case.play(planning, self._ask_site(seed))
        yield from self._carry_out(plan, seed)
        if instance["state"] == rounds.FAILED:
            return "%(code)s: %(message)s" % instance["error"]
        return bool(instance.get("changed"))

    @staticmethod
    def _place(instance, seen, prefer):
        asked = (instance["spec"].get("requested_destination") or {}).get("host")
        able = [host for host in prefer if host in seen.documents and asked in (None, host)]
        if not able:
            instance.update(state=rounds.FAILED, error={"code": "NoValidHost", "message": ""})
            return
        others = [{"host": host, "host_uuid": seen.documents[host]["uuid"]} for host in able]
        instance.update(state=rounds.CLAIMING, host=able[0], host_uuid=others[0]["host_uuid"], alternates=others[1:])

    def _carry_out(self, plan, seed):
        run = create.Run(
            new_token=self.new_token,
            build_of=lambda _name, entry: {"uuid": entry["uuid"], "token": entry.get("token")},
            registry=Embedded(lost=self.lost, over_quota=quotas.after_the_claims(self.quotas) if self.quotas else None),
        )

        yield from procedure_case.play(create.create(plan, run), self._ask_site(seed))

    def _ask_site(self, seed):
        def ask(name, module, given):
            site = self.sites[name]
            return procedure_case.ask(
                module,
                given,
                lambda method, *args: call(site, method, *args),
                lambda build: call(site, "build", build["uuid"], build["token"], seed),
            )

        return ask

    def update(self, name, names):
        seen = yield from self.read()
        more = self._volumes_of(seen, names)
        disks = self._run_of_disks()
        return (
            yield from self._operate(
                "update_disks", name, seen, more, lambda task: procedure.update_disks(task, {}, disks)
            )
        )

    def delete(self, name):
        seen = yield from self.read()
        return (
            yield from self._operate(
                "delete", name, seen, None, lambda task: delete.and_forget("delete", task, {}, self.hosts())
            )
        )

    def _operate(self, operation, name, seen, more, of_task):
        """Find the instance and carry a procedure out: ``of_task``: {name: task} -> it."""
        run = locate.Run(operation, what_to_operate.Said("r1", self.lost), **({"more": more} if more else {}),
                         not_found=lambda name: BerthError("no instance %s" % name), quotas=lambda: self.quotas)  # fmt: skip
        wanted = {name: locate.Wanted(self.wanted(name)[0]["uuid"])}
        found = yield from procedure_case.play(locate.locate(run, seen, wanted), self._ask)
        for error in found.errors.values():
            return str(error) if isinstance(error, QuotaExceeded) else "%s: %s" % (error.code, error)
        done = (yield from procedure_case.play(of_task(found.tasks), self._ask))[name]
        return closing_table.text_of(done.errors[0]) if done.errors else done.changed

    def _ask(self, host, module, given):
        method, arguments = answers_of(module, given)
        return self.ask(host, method, **arguments)

    def delete_volume(self, name):
        seen = yield from self.read()
        uuid = volume_uuid("default", name)
        try:
            host = volume_hosts.to_delete(seen, name, uuid, self.defined, self.lost)
        except BerthError as error:
            return "%s: %s" % (error.code, error)
        if host is None:
            return False
        reply = call(self.sites[host], "volume_task", uuid=uuid)
        yield
        return reply["changed"] if "changed" in reply else said(reply)


def said(reply):
    error = reply.get("error") or {"code": "HostUnreachable", "message": reply.get("reason")}
    return "%(code)s: %(message)s" % error
