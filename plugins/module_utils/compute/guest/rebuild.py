# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rebuild of an instance: its root disk is made anew from an image. Name, uuid, addresses, data disks and volumes stay.

    the new root beside the old one -> guest off -> record: vm_state error, the new request -> renamed -> seed, definition -> as it was

A guest in vm_state error is not started: a run that is killed after the record leaves that, and the next one ends it. Before the
record the old root is whole and in its place, from then on the new one is whole.
"""

from __future__ import annotations

import os

from ...model import hints, operation_hints, snapshots, updates, vm_states, volumes
from ...model.errors import BerthError
from ...model.guest_settings import KEY
from ...model.image import known_properties
from ...model.lifecycle import ALIVE, POWERING_ON, REBUILDING
from ...model.move_errors import InstanceInvalidState
from .. import paths
from ..disk import disk as disks
from ..disk import disk_chain, image, inside, layers, room
from ..errors import BuildFailed
from ..record import journal
from . import domain, domain_xml, given_up, seed, start, startable
from .snapshots import forgotten
from .summary import is_started
from .update import is_old_seed

OPERATION = "rebuild"
# What placement and the claim were made for: an image that says otherwise may need another host.
OF_CLAIM = (
    "hw_architecture", "hw_cpu_policy", "hw_cpu_realtime", "hw_cpu_thread_policy", "hw_emulation_architecture", "hw_mem_",
    "hw_numa_", "hw_pci_numa", "hw_vm_mode", "img_hv_type", "traits_required",
)  # fmt: skip


class RebuildDiscards(BerthError):
    """A rebuild makes the root disk anew, and what is on it, and the snapshots, are lost. Nothing was changed."""


class RebuildNotPossible(BerthError):
    """The instance cannot be given the image, or its inventory asks for more than another image. Nothing was changed."""


def rebuild(instance, params):
    """``params``: the arguments of module instance: spec, seed, discards_root and shutdown_timeout. Return whether anything changed."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        record, new, due = _checked(instance, params)
        if not due:
            return record.power_state in ALIVE and start.converge(instance, record)
        startable.own_disks(instance.host, record)
        made = _make_root(instance, record, new)
        instance.observe("rebuild stop")  # if this is all that is done, recover starts it as it was
        start.end(instance, record, params["shutdown_timeout"])
        record = instance.swap(_begun(record, new))
        try:
            record = _replace(instance, record, made, params["seed"])
        except BerthError as error:
            instance.swap(journal.faulted(instance.store.read(instance.uuid), error))
            raise
        if record.power_state in ALIVE:
            start.converge(instance, record)
        return True


def would_rebuild(instance, params):
    record, _new, due = _checked(instance, params)
    if due:
        return True
    return record.power_state in ALIVE and not is_started(instance.host, record)


# ---- before anything is changed --------------------------------------------------------------------------------------


def _checked(instance, params):
    """Return (record, its request with the image, whether the root disk is to be made anew)."""
    record, host = instance.at_rest(OPERATION), instance.host
    if record.vm_state == vm_states.ERROR and record.task_state != REBUILDING:
        hint = hints.finish_disks(record.name, record.task_state)
        raise InstanceInvalidState(record.name, "vm_state", record.vm_state, OPERATION, hint=hint)
    new = _request(record, params["spec"])
    if not _is_due(instance, record, new, params["seed"]):
        return record, new, False
    _check_supported(record, new, params["spec"])
    host.require_prepared()
    startable.check_owner(host, record)
    disk_chain.check_unsaved(host, record)
    disk_chain.check_stop(host, record)
    disk_chain.check_restore(host, record)
    anew = record.replace(spec=new)
    host.check_machine(domain_xml.machine(anew, _host(instance, record)))
    domain_xml.render(anew, _host(instance, record))
    if params["discards_root"] != record.name:
        raise RebuildDiscards(
            "%s would lose %s" % (record.name, ", ".join(given_up.by_rebuild(instance, record))),
            field="berth_rebuild_discards",
            value=params["discards_root"],
            rule="the name of the instance, %s" % record.name,
            hint=operation_hints.discard_root(record.name),
        )
    return record, new, True


def _request(record, wanted):
    """The record's request with the image, and with what its seed has, from the wanted one. libvirt chooses machine and devices."""
    kept = {part: value for part, value in record.spec.items() if part not in (KEY, "ignition")}
    taken = {part: wanted[part] for part in ("image", *updates.TAKEN) if part in wanted}
    return {**kept, **taken}


def _is_due(instance, record, new, given):
    """A guest that did not run since it was rebuilt from that image, with that seed, has nothing to lose and nothing to get."""
    last = record.history[-1] if record.history else {}
    if record.vm_state == vm_states.ERROR or last.get("event") != OPERATION or domain.is_active(*_guest(instance)):
        return True
    return last.get("checksum") != new["image"]["checksum"] or is_old_seed(instance, record.replace(spec=new), given)


def _guest(instance):
    return instance.host.connection, instance.uuid


def _check_supported(record, new, wanted):
    """Raise RebuildNotPossible with all that is in the way."""
    faults = []
    if volumes.boot(record.spec) or not new.get("image"):
        faults.append("it boots from a volume, which stays")
    had, asks = _of_claim(record.spec), _of_claim(new)
    faults += [
        "its place was chosen for %s %s, and the image has %s" % (name, had.get(name), asks.get(name))
        for name in sorted({**had, **asks})
        if had.get(name) != asks.get(name)
    ]
    faults += _too_small(new["flavor"], new.get("image") or {})
    if updates.told(record.spec)["networks"] != updates.told({**new, "networks": wanted.get("networks")})["networks"]:
        faults.append("its network interfaces are not those of the inventory, and the new seed would name others")
    if faults:
        raise RebuildNotPossible(
            "%s cannot be rebuilt from image %s: %s"
            % (record.name, (new.get("image") or {}).get("name"), "; ".join(faults)),
            hint=operation_hints.update_first(record.name),
        )


def _too_small(flavor, image):
    """The flavor that the instance has, which the inventory may have changed since."""
    needs = (("min_ram", "memory_mb", "MiB"), ("min_disk", "root_gb", "GiB"))
    for of_image, of_flavor, unit in needs:
        least, has = image.get(of_image) or 0, flavor[of_flavor]
        if least > has and (has or of_flavor != "root_gb"):
            yield "its flavor has %s %d %s, and the image's %s is %d" % (of_flavor, has, unit, of_image, least)


def _of_claim(spec):
    known = known_properties((spec.get("image") or {}).get("properties"), strict=False)
    return {name: value for name, value in known.items() if name.startswith(OF_CLAIM) and value}


# ---- the new root ----------------------------------------------------------------------------------------------------


def _make_root(instance, record, new):
    """Make the new root disk beside the old one, and get the boot files of its image. Return its path."""
    host, pool = instance.host, instance.host.pool_of(record)
    instance.observe("rebuild image")
    base = image.ensure(pool, new["image"], volumes.root_gb(new), host.settings)
    for part in disks.named_boot_files(new):
        disks.cached_boot_file(pool, new, part, host.settings)
    made = _root(instance, record) + ".tmp"
    paths.remove(made)
    root = disks.plan(new)[0]
    if root.kind != "overlay":
        copies = [(room.of_file(base["path"], base["format"]), made, root.format)]
        room.check(
            pool, "the new root disk of %s, which is made beside the old one," % record.name, copies, RebuildNotPossible
        )
    try:
        disks.make(root, made, base)
        os.chmod(made, 0o600)
    except BuildFailed:
        paths.remove(made)
        raise
    return made


def _root(instance, record):
    return paths.instance(instance.host.pool_of(record), record.uuid, disks.plan(record.spec)[0].file)


def _begun(record, new):
    """The power state stays: it is what the guest is to have afterwards."""
    spec = {**new, "instance_id": seed.next_instance_id(record)}
    return record.replace(spec=spec, vm_state=vm_states.ERROR, task_state=REBUILDING)


# ---- from here on the instance is the new one ------------------------------------------------------------------------


def _replace(instance, record, made, given):
    host, pool, root = instance.host, instance.host.pool_of(record), _root(instance, record)
    instance.observe("rebuild root")
    paths.publish(made, root)
    _remove_snapshots(instance, record)
    instance.observe("rebuild seed")
    domain_xml.remove_guest(host.connection, instance.uuid, record)
    _remove_stale(pool, record)
    disks.build_boot_files(pool, record.uuid, record.spec, host.settings)
    seed.build(pool, record, given, [planned.name for planned in disks.plan(record.spec)])
    instance.observe("rebuild define")
    record = domain_xml.define_guest(host.connection, record, _host(instance, record))
    instance.observe("rebuilt")
    runs = record.power_state in ALIVE
    for each in snapshots.of(record.spec):
        record = forgotten(record, each["name"])
    from_image = record.spec["image"]
    noted = journal.noted(record, OPERATION, image=from_image["name"], checksum=from_image["checksum"])
    now = vm_states.said(vm_states.ACTIVE if runs else vm_states.STOPPED)
    return instance.swap(noted.replace(**now, task_state=POWERING_ON if runs else None))


def _remove_snapshots(instance, record):
    """They were of root disk and data disks together, so the data disks lose their part, and keep what they have now."""
    pool, ours = instance.host.pool_of(record), snapshots.tags(record.spec)
    for name in snapshots.with_memory(record.spec):
        paths.remove(paths.instance(pool, record.uuid, snapshots.memory_file(name)))
    for planned in disks.plan(record.spec):
        path = paths.instance(pool, record.uuid, planned.file)
        for tag in layers.snapshots_in(path) if planned.kind == disks.DATA else ():
            if tag in ours:
                inside.delete(path, tag)


def _remove_stale(pool, record):
    """The UEFI variables name what the old root booted; the other files are of an image or of user data that it has no more."""
    planned = disks.planned(record.spec)
    for each in (*disks.BOOT_FILES, disks.IGNITION, disks.NVRAM):
        if each is disks.NVRAM or each not in planned:
            paths.remove(paths.instance(pool, record.uuid, each.file))


def _host(instance, record):
    return instance.host.for_guests(record.spec.get("pool"))
