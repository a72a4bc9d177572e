# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes an instance of a guest that is there, and makes a guest of an instance again. Neither touches the guest, or its files where
they were found.

    adopt: record -> berth's mark in the definition -> permit of a guest that is on
    leave: files that a move brought go out of its directory -> mark -> permit -> record -> note that the instance is gone

So whoever is interrupted runs again and goes on: adopt finds the record, leave finds it until its last step.
"""

from __future__ import annotations

import os
import secrets

from ...model import adopted, hints, snapshot_hints, snapshots, vm_states, volumes
from ...model.errors import BerthError, InstanceExists, InvalidInput, together
from ...model.identity import check_name
from ...model.lifecycle import ACTIVE, OWN
from ...model.move_errors import InstanceInvalidState
from ...model.record import Record
from ...model.request_spec import SCHEMA
from ...model.safe_text import clean
from ...placement.capacity import allocation_of
from .. import paths
from ..disk import attached, disk, disk_chain, owner
from ..errors import DisksWithoutRecord
from ..record import journal, registry_mark, whereabouts
from ..record.claim import check_name_free, first_epoch
from . import adoptable, domain, domain_xml, gate, startable

SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")


class GuestNotFound(BerthError):
    """libvirt does not know the guest that is to be adopted."""


def wanted(params):
    """The part of module instance's arguments that says what is adopted."""
    return {part: params[part] for part in ("name", "project_id", "flavor", "after")}


def adopt(instance, wanted):
    """Make the guest an instance. ``wanted``: {name, project_id, flavor (None for one of its own), after}. Return whether
    anything was changed."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        record, new = _checked(instance, wanted), instance.store.read(instance.uuid) is None
        if new:
            instance.observe("adopt record")
            with instance.store.host_lock():
                registry_mark.check(instance.store)
                check_name_free(instance.store, instance.uuid, wanted["name"], wanted["project_id"])
                record = instance.store.restore(record)
        guest = domain.find(instance.host.connection, instance.uuid)
        unmarked = not domain.is_managed(guest)
        if unmarked:
            instance.observe("adopt mark")
            domain.note(guest, domain_xml.metadata(record)[0])
        return _permitted(instance, guest) or unmarked or new


def would_adopt(instance, wanted):
    """Make the same checks without any change."""
    _checked(instance, wanted)
    guest = domain.find(instance.host.connection, instance.uuid)
    return instance.store.read(instance.uuid) is None or not domain.is_managed(guest)


def _permitted(instance, guest):
    """Give the permit of a guest that is on: with it, it is as an instance that was started here."""
    if not guest.isActive() or gate.is_permitted(instance.uuid, instance.host.run_dir):
        return False
    instance.observe("adopt permit")
    gate.permit(instance.uuid, instance.host.run_dir)
    return True


def _checked(instance, wanted):
    """Return its record, or that which it is to get."""
    instance.host.require_prepared()
    record = instance.store.read(instance.uuid)
    guest = domain.find(instance.host.connection, instance.uuid)
    if guest is None:
        raise GuestNotFound("libvirt knows no guest %s on %s" % (instance.uuid, instance.host.connection.getHostname()))
    if record is not None:
        _check_same(record, wanted)
        return record
    registry_mark.check(instance.store)
    check_name(wanted["name"])
    found = adoptable.of(instance.host.connection, instance.uuid)
    if found.in_the_way:
        raise adoptable.refused(found, found.in_the_way, "become an instance")
    check_name_free(instance.store, instance.uuid, wanted["name"], wanted["project_id"])
    return _record(instance, found, wanted)


def _check_same(record, wanted):
    if (record.name, record.project_id) != (wanted["name"], wanted["project_id"]) or not adopted.of(record.spec):
        raise InstanceExists(
            "the guest %s is the instance %s of project %s already" % (record.uuid, record.name, record.project_id)
        )


def _record(instance, found, wanted):
    flavor = _flavor(found, wanted)
    uuid, running = found.uuid, found.state not in ("shutdown", "crashed")
    spec = {
        "schema": SCHEMA,
        "uuid": uuid,
        "name": wanted["name"],
        "project_id": wanted["project_id"],
        "flavor": flavor,
        "networks": found.networks,
        "image": adopted.NO_IMAGE,
        "disks": [],
        "num_instances": 1,
        "instance_uuids": [uuid],
        adopted.KEY: adoptable.kept(found),
    }
    record = Record(
        uuid=uuid,
        name=wanted["name"],
        project_id=wanted["project_id"],
        role=OWN,
        generation=[first_epoch(instance.store, uuid, wanted["after"]) + 1, 0],
        token=secrets.token_hex(16),
        phase=ACTIVE,
        spec=volumes.used(spec),
        resources=_taken(instance.host, found),
        vm_state="active" if running else "stopped",
        power_state="running" if running else "shutdown",
    )
    return journal.noted(record, "adopt", domain=clean(found.name, 200))


def _flavor(found, wanted):
    """Return the flavor that is wanted, which must agree with the guest, or one of its own."""
    first = adopted.gb(found.disks[0]["size"]) if found.disks else 0
    has = {"vcpus": found.vcpus, "memory_mb": found.memory_mb, "root_gb": first, "ephemeral_gb": 0, "swap": 0}
    asked = wanted["flavor"]
    if asked is None:
        return {"name": "%s-own" % wanted["name"], **has, "extra_specs": {}}

    def check(size):
        if (asked.get(size) or 0) != has[size]:
            rule = "%s, which the guest has. Name another flavor, or none: then it gets one of its own" % has[size]
            raise InvalidInput("flavor %s: %s" % (asked.get("name"), size), asked.get(size), rule)

    together(lambda size=size: check(size) for size in SIZES)
    return asked


def _taken(host, found):
    """Return what it counts for: as before, when the host counted it as a guest of others. A disk counts where it is on the
    file system of the host's pool."""
    here = os.stat(host.pool_path()).st_dev
    disk_gb = sum(adopted.gb(each["size"]) for each in found.disks if os.stat(each["path"]).st_dev == here)
    return allocation_of({"VCPU": found.vcpus, "MEMORY_MB": found.memory_mb, "DISK_GB": disk_gb})


def difference(instance, wanted):
    """Return {before, after} of what the definition gets: berth's mark, which no guest sees."""
    mark = domain_xml.metadata(_checked(instance, wanted))[0]
    parts = {part.tag.rpartition("}")[2]: part.text for part in mark}
    lines = ["metadata/instance/%s: %s" % (name, clean(str(parts[name]), 200)) for name in parts if name != "record"]
    return {"before": "", "after": "\n".join(lines) + "\n"}


def check_supported(instance, operation):
    """Raise AdoptedNotSupported if the instance was adopted. ``operation``: one that is only for created ones, or None."""
    record = instance.store.read(instance.uuid) if operation else None
    if record is not None and adopted.of(record.spec):
        raise adopted.refused(record.name, operation)


def leave(instance, after):
    """Make the instance a guest of libvirt alone. ``after``: the highest generation that any host knows of. Return whether
    anything was changed."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        record = _leavable(instance)
        if record is not None:
            record = bring_out(instance, record)
            guest = domain.find(instance.host.connection, instance.uuid)
            if guest is None:  # else its definition, of which the record has the only copy, would go
                host = instance.host.for_guests(record.spec.get("pool"))
                domain_xml.define_guest(instance.host.connection, record, host)
                guest = domain.find(instance.host.connection, instance.uuid)
            domain.keep_definition(instance.host.connection, guest)
            instance.observe("leave mark")
            domain.note(guest, None)
            instance.observe("leave permit")
            gate.revoke(instance.uuid, instance.host.run_dir)
            instance.observe("leave record")
            instance.store.give_back(journal.noted(record, "leave"))
            _remove_directory(instance, record)
        instance.observe("leave note")
        return bool(after and whereabouts.removed(instance.store, instance.uuid, after)) | (record is not None)


def _remove_directory(instance, record):
    """Remove what a move that was given up left beside no disks: who owned them."""
    own = paths.instance(instance.host.pool_of(record), instance.uuid)
    if not set(paths.entries(own)) - {attached.FILE, owner.FILE}:
        paths.remove_directory(own)


def files(instance):
    """Return the paths of the files of an adopted instance, for people."""
    record = instance.store.read(instance.uuid)
    return [] if record is None else [clean(path, 1000) for path in adopted.files(outside(instance.host, record))]


def would_leave(instance):
    return _leavable(instance) is not None


def _leavable(instance):
    if instance.store.read(instance.uuid) is None:
        return None
    record = instance.at_rest("leave")
    if not adopted.of(record.spec):
        raise InstanceExists(
            "%s was created, not adopted: its disks are in berth's directory, from which nothing but an instance starts"
            % record.name
        )
    names = [each["name"] for each in snapshots.of(record.spec)]
    if names:  # no record would name them
        hint = snapshot_hints.delete_one(record.name, names[0])
        raise InstanceInvalidState(record.name, "snapshots", ", ".join(names), "leave", hint=hint)
    if domain.is_saved(instance.host.connection, instance.uuid):
        # What libvirt saved has berth's mark, so without the record nothing could start it.
        back = vm_states.VM_STATES[record.vm_state or vm_states.ACTIVE].back or "start"
        hint = hints.make_active(record.name, back)
        raise InstanceInvalidState(record.name, "power_state", "saved", "leave", hint=hint)
    if adopted.has_moved(record.spec):
        _check_moved(instance, record)
    return record


def _check_moved(instance, record):
    """Raise unless it is off with its own disks: they get other paths, which QEMU would not know."""
    if domain.is_active(instance.host.connection, instance.uuid):
        hint = hints.stop_to_restore(record.name)
        raise InstanceInvalidState(record.name, "power_state", "running", "leave after a move", hint=hint)
    startable.check_owner(instance.host, record)
    disk_chain.check_unsaved(instance.host, record)
    disk_chain.check(instance.host, record)


def outside(host, record):
    """Return the request with its files where a leave brings them."""
    if not adopted.has_moved(record.spec):
        return record.spec
    return adopted.in_directory(record.spec, paths.left(host.pool_of(record), record.uuid))


def bring_out(instance, record):
    """Bring the files of one that has moved, and is off, beside the directories of instances. Return its record. In between they
    have both names, so the next run finishes a killed one."""
    host, pool_path = instance.host, instance.host.pool_of(record)
    if adopted.has_moved(record.spec):
        instance.observe("leave files")
        _link(pool_path, record)
        instance.observe("leave files record")
        record = instance.swap(record.replace(spec=outside(host, record)))
    names = [os.path.basename(path) for path in _brought_out(pool_path, record)]
    inside = [
        path for path in (paths.instance(pool_path, record.uuid, name) for name in names) if os.path.lexists(path)
    ]
    if inside:
        instance.observe("leave define")
        domain_xml.define_guest(host.connection, record, host.for_guests(record.spec.get("pool")))
        instance.observe("leave files inside")
        for path in inside:
            paths.remove(path)
        paths.remove_console_logs(record.uuid)
    return record


def _link(pool_path, record):
    directory = paths.left(pool_path, record.uuid)
    paths.make_directory(os.path.dirname(directory))
    paths.make_directory(directory)
    for name in (each.file for each in disk.planned(record.spec)):
        inside, there = paths.instance(pool_path, record.uuid, name), os.path.join(directory, name)
        try:
            os.link(inside, there)
        except FileExistsError:
            if not os.path.samefile(inside, there):
                raise DisksWithoutRecord(
                    "%s has a file %s that is not that of instance %s. It was not touched"
                    % (directory, name, record.name),
                    hint=hints.disks_without_record(directory),
                )
    paths.sync_directory(directory)


def _brought_out(pool_path, record):
    return [path for path in adopted.files(record.spec) if os.path.dirname(path) == paths.left(pool_path, record.uuid)]
