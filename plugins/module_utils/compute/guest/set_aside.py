# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When two hosts own one instance and a person has named the copy to keep: sets the other copy aside, losing nothing.

    the other copy        its guest is stopped, so that at most one runs whatever happens from here on
    the copy that stays   its generation is raised above that of every other copy, so that it is the valid one
    the other copy        phase setting_aside, guest stopped, disks renamed to set-aside/<uuid>-<generation> in their pool,
                          with record, definition and the state of its TPM beside them, a line in set-aside.json, its record removed

The next run continues after an interruption. Only ``remove`` removes what was set aside, and nothing else calls it. If the
host of the copy that stays is lost, bring_back() brings this one back.
"""

from __future__ import annotations

import json
import os

from ...model import copy_hints, disk_hints, disk_words, nics, vm_states, volumes
from ...model.lifecycle import ACTIVE, DELETING, OWN, SETTING_ASIDE
from ...model.move_errors import InstanceInvalidState, InstanceNotFound
from ...model.record import Record
from .. import durable, paths
from ..disk import disk, owner, volume, volume_files
from ..errors import CopyNotOutdated, DisksNotHere, DisksUnfit, GuestSaved
from ..record import journal, state_file
from . import domain, domain_xml, gate

OFF = "shutdown"
FILE = "set-aside.json"  # in the state directory: what was set aside here, and where


# the copy that stays


def keep(instance, above):
    """Make this copy the valid one: raise its generation above ``above``. Return whether it was lower. One that is in a
    move has to be higher already."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        if not would_keep(instance, above):
            return False
        record = instance.store.read(instance.uuid)
        instance.observe("keep")
        _own_disks(instance, record)
        instance.store.compare_and_swap(record, journal.noted(record, "keep").replace(generation=[above[0] + 1, 0]))
        return True


def would_keep(instance, above):
    record = _owned(instance, "keep")
    later = record.generation[0] > above[0]  # a later epoch, since the other copy is still written to
    if not (later and record.op) and (record.op or record.phase != ACTIVE):
        raise _not_now(record, "keep")
    pool_path, host_uuid = instance.host.pool_of(record), instance.host.identify()
    owner.check(pool_path, instance.uuid, record.name, host_uuid, copy_hints.keep_copy_with_disks)
    if not later:
        _check_whole(instance, record, pool_path)
    return not later


def _check_whole(instance, record, pool_path):
    """Raise DisksNotHere if this copy lacks disks: the other, which may be the only whole one, would be stopped for it."""
    here = paths.instance(pool_path, instance.uuid)
    gone = [os.path.join(here, name) for name in missing_files(record, here)] + _missing_volumes(instance.host, record)
    if gone and not domain.is_active(instance.host.connection, instance.uuid):
        host = instance.host.connection.getHostname()
        raise DisksNotHere(
            "the copy of %s on %s lacks %s. Nothing was changed" % (record.name, host, " and ".join(gone)),
            hint=copy_hints.keep_whole_copy(record.name, host, gone),
        )


def missing_files(record, directory):
    """Return the names of its files that are not in the directory and that nothing makes again: not those of the firmware, and
    ``mend`` makes a seed. A data disk that update_disks has not finished is there, and the next one does."""
    files = [planned.file for planned in disk.planned(record.spec) if planned not in (*disk.OF_SEED, disk.NVRAM)]
    there = set(paths.entries(directory))
    return [name for name in files if there.isdisjoint((name, name + ".tmp"))]


def _missing_volumes(host, record):
    """The instance may boot from one. A new one, which no guest has used, is made when it starts."""
    new = {entry["name"] for entry in volumes.of(record.spec) if entry.get("new")}
    return [path for name, path in volume_files.without_file(host, record) if name not in new]


def _own_disks(instance, record):
    """On shared storage both copies have the same disks, which stay with the copy that stays."""
    pool_path = instance.host.pool_of(record)
    if os.path.isdir(paths.instance(pool_path, instance.uuid)):
        owner.write(pool_path, instance.uuid, instance.host.identify())


# the other copy


def stop(instance, grace):
    """Stop the guest of this copy, within ``grace`` seconds for its own shutdown, before the copy that stays counts: its
    host may be silent afterwards. Whose the disks are is left. Return whether anything was changed."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        record = _settable(instance)
        if not _is_to_stop(instance, record):
            return False
        _noted_off(instance, record)
        end_guest(instance, grace)
        return True


def would_stop(instance):
    return _is_to_stop(instance, _settable(instance))


def _is_to_stop(instance, record):
    runs = domain.is_active(instance.host.connection, instance.uuid)
    return record.power_state != OFF or runs or gate.is_permitted(instance.uuid, instance.host.run_dir)


def _noted_off(instance, record):
    """Return the record, which says from here on that the guest is off."""
    if record.power_state == OFF:
        return record
    instance.observe("stopping")
    noted = journal.noted(record, "stop for another copy")
    state = vm_states.found(record.spec, runs=False)
    return instance.store.compare_and_swap(record, noted.next(vm_state=state, power_state=OFF))


def end_guest(instance, grace):
    instance.observe("permit")
    gate.revoke(instance.uuid, instance.host.run_dir)
    instance.observe("stop")
    domain.stop(instance.host.connection, instance.uuid, grace)


def set_aside(instance, grace):
    """Stop the guest, within ``grace`` seconds for its own shutdown, and put this copy away. Return its path."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        record = _setting_aside(instance, _settable(instance), grace)
        path = place(instance, record)
        instance.observe("disks")
        _put_away(instance, record, path)
        instance.observe("domain")
        domain_xml.remove_guest(instance.host.connection, instance.uuid, record)
        instance.observe("list")
        _list(instance.store, lambda entries: {**entries, path: record.to_dict()})
        _forget(instance, record)
        return path


def _setting_aside(instance, record, grace):
    record = _noted_off(instance, record)
    if record.phase != SETTING_ASIDE:
        instance.observe("setting aside")
        noted = journal.noted(record, "set aside")
        record = instance.store.compare_and_swap(record, noted.next(phase=SETTING_ASIDE))
    end_guest(instance, grace)
    return record


def _forget(instance, record):
    instance.observe("volumes")
    volume.forget_old(instance.host, record)
    instance.observe("record")
    instance.store.compare_and_swap(record, None)


def remove_outdated(instance, new_owner):
    """Remove this copy, whose disks another host, with the uuid ``new_owner``, has taken over while this one was off: its record, its
    definition, its permit, and the records of the volumes that went along. Nothing of the disks is touched. Return True."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        record = _setting_aside(instance, check_outdated(instance, new_owner), 0)
        instance.observe("domain")
        domain_xml.remove_guest(instance.host.connection, instance.uuid, record)
        _forget(instance, record)
        return True


def check_outdated(instance, new_owner):
    """Return the record of this copy. Raise CopyNotOutdated unless the file beside its disks proves that they are the new owner's."""
    record = _settable(instance)
    name = instance.host.connection.getHostname()
    if domain.is_active(instance.host.connection, instance.uuid):
        why = "its guest runs there"
    elif owner.read(instance.host.pool_of(record), instance.uuid) != new_owner:
        why = "no file beside its disks says that they belong to another host by now"
    else:
        return record
    raise CopyNotOutdated(
        "the copy of %s on %s was kept with all that it has: %s" % (record.name, name, why),
        hint=copy_hints.find_the_right_copy(record.name, [name, copy_hints.NEWER]),
        instance=record.name,
        host=name,
    )


def would_set_aside(instance):
    """Return where it would be put."""
    record = _settable(instance)
    writes = (record.power_state != OFF) + (record.phase != SETTING_ASIDE)
    for _write in range(writes):
        record = record.next()
    return place(instance, record)


def place(instance, record):
    return _place_in(instance.host.pool_of(record), record)


def _place_in(pool_path, record):
    return os.path.join(paths.set_aside(pool_path), "%s-%d.%d" % (record.uuid, *record.generation))


def _settable(instance):
    record = read(instance)
    if record.phase not in (ACTIVE, SETTING_ASIDE, DELETING):
        raise _not_now(record, "set aside")
    paths.check_mounted(paths.instance(instance.host.pool_of(record), instance.uuid))
    _check_unsaved(instance, record)
    return record


def _check_unsaved(instance, record):
    """Raise GuestSaved if libvirt has saved the memory of this copy: it would be lost with the definition."""
    connection = instance.host.connection
    if domain.is_saved(connection, record.uuid):
        host = connection.getHostname()
        raise GuestSaved(
            "the memory of %s (%s) was saved on %s, as virsh managedsave does: it would be lost if this copy were set aside"
            % (record.name, record.uuid, host),
            hint=disk_hints.keep_or_drop_memory(record.name, host, record.uuid),
            instance=record.name,
            host=host,
        )


def _put_away(instance, record, path):
    pool_path = instance.host.pool_of(record)
    paths.make_directory(os.path.dirname(path))
    here = paths.instance(pool_path, instance.uuid)
    if os.path.isdir(here) and not owner.is_another(pool_path, instance.uuid, instance.host.identify()):
        os.rename(here, path)
        paths.sync_directory(os.path.dirname(here))
        paths.sync_directory(os.path.dirname(path))
    paths.make_directory(path)
    definition, tpm = domain.definition(instance.host.connection, instance.uuid), paths.tpm_state(instance.uuid)
    beside = {"domain.xml": definition and definition.encode()}
    beside[paths.SWTPM_FILE] = durable.read_at(tpm) if os.path.lexists(tpm) else None
    beside["record.json"] = json.dumps(record.to_dict(), indent=1).encode()
    for name, content in beside.items():
        if content:
            durable.write_in(path, name, content, mode=paths.PASS_MODE)


# what was set aside


def listed(store, uuid=None):
    """Return {path: record} of what was set aside on this host, of one instance or of all."""
    entries = _read_list(store)
    return {path: Record.from_dict(entry) for path, entry in entries.items() if uuid in (None, entry["uuid"])}


def given_up(instance):
    """Return the disks that ``remove`` removes, in words. Volumes were not set aside."""
    return [
        word
        for _path, record in sorted(listed(instance.store, instance.uuid).items())
        for word in disk_words.own(record.spec)
    ]


def remove(instance):
    """Remove for good what was set aside of the instance on this host. Return the removed paths."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        removed = sorted(listed(instance.store, instance.uuid))
        for path in removed:
            instance.observe("remove")
            paths.check_mounted(path)
            paths.remove_directory(path)
            instance.observe("unlist")
            unlist(instance.store, path)
        return removed


def unlist(store, path):
    _list(store, lambda entries: {kept: entries[kept] for kept in entries if kept != path})


def _read_list(store):
    return state_file.read(store.state_dir, FILE, _parse, {})


def _parse(data):
    entries = {path: Record.from_dict(entry) for path, entry in data.items()}
    for path, record in entries.items():
        pool_path = os.path.dirname(os.path.dirname(path))
        if not os.path.isabs(path) or path != _place_in(os.path.normpath(pool_path), record):
            raise ValueError("no copy of %s is put at %r" % (record.name, path))
    return {path: record.to_dict() for path, record in entries.items()}


def _list(store, change):
    with store.host_lock():
        durable.write_in(store.state_dir, FILE, json.dumps(change(_read_list(store)), sort_keys=True).encode())


def read(instance, method="keep or set aside"):
    """Return the record of a copy at rest, or in the middle of ``method``."""
    record = _owned(instance, method)
    if record.op:
        raise _not_now(record, method)
    return record


def _owned(instance, method):
    record = instance.store.read(instance.uuid)
    if record is None:
        raise InstanceNotFound("Instance %s could not be found" % instance.uuid)
    if record.role != OWN:
        raise _not_now(record, method)
    return record


def _not_now(record, method):
    return InstanceInvalidState(
        record.name, "phase", record.phase, method, role=record.role, phase=record.phase, op=record.op
    )


# Brings back a copy that was set aside, or half, when the host of the copy that stayed is lost for good.
#
#     no record       the record from set-aside.json, in the phase setting_aside; from here on other runs see an owner
#     setting_aside   disks renamed back, the line in set-aside.json removed, the guest defined, then phase active, off, with
#                     a generation above that of the lost copy, so that this one counts when that host is back
#
# Each step can be run again, and until the last one berth.kvm.keep_one_copy can set the copy aside again.
BESIDE = ("domain.xml", "record.json", paths.SWTPM_FILE)  # what was put beside the disks


def record_again(instance):
    """Write the record of the copy that was set aside last. Return whether there was none."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        if not would_record_again(instance):
            return False
        record = _last_put_away(instance)
        instance.observe("record again")
        instance.store.restore(journal.noted(record, "taken up again"))
        return True


def would_record_again(instance):
    if instance.store.read(instance.uuid) is not None:
        return False
    record = _last_put_away(instance)
    _check_disks(instance, record, place(instance, record))
    return True


def addresses(instance):
    """Return the addresses that the copy that was set aside last has, as model/nics.py writes them. Changes nothing."""
    return nics.taken(_last_put_away(instance).spec.get("networks"))


def _last_put_away(instance):
    found = listed(instance.store, instance.uuid)
    if not found:
        raise InstanceNotFound(
            "Instance %s could not be found: no copy of it was set aside on %s"
            % (instance.uuid, instance.host.connection.getHostname()),
            hint=copy_hints.keep_where_set_aside(),
        )
    return max(found.values(), key=lambda record: list(record.generation))


def bring_back(instance, above, grace):
    """Make this copy the instance, off within ``grace`` seconds, at a generation above ``above`` and above that of the copy
    that had stayed. Return whether anything was changed."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        record = read(instance, "bring back")
        if record.phase != SETTING_ASIDE:
            return keep(instance, above)
        path = place(instance, record)
        _check_disks(instance, record, path)
        end_guest(instance, grace)  # it runs if nobody had come so far
        instance.observe("disks back")
        _put_back(instance, record, path)
        instance.observe("unlist")
        unlist(instance.store, path)
        instance.observe("define")
        defined = domain_xml.define_guest(
            instance.host.connection, record, instance.host.for_guests(record.spec.get("pool"))
        )
        instance.observe("active")
        # the copy that stayed was put one epoch above this one
        epoch = max(above[0], record.generation[0] + 1) + 1
        noted = journal.noted(defined, "brought back")
        instance.store.compare_and_swap(record, noted.replace(phase=ACTIVE, generation=[epoch, 0]))
        return True


def would_bring_back(instance, above):
    record = instance.store.read(instance.uuid)
    if record is None:
        return would_record_again(instance)
    if record.phase != SETTING_ASIDE:
        return would_keep(instance, above)
    _check_disks(instance, record, place(instance, record))
    return True


def _check_disks(instance, record, path):
    """Raise DisksOfAnotherHost, DisksNotHere or DisksUnfit unless this copy has all its disks, in one place."""
    pool_path = instance.host.pool_of(record)
    here = paths.instance(pool_path, instance.uuid)
    if os.path.isdir(here):
        owner.check(pool_path, instance.uuid, record.name, instance.host.identify())
        if _has_disks(path):
            raise DisksUnfit("%s and %s both have files of %s. Nothing was changed" % (here, path, record.name))
    elif not _has_disks(path):
        raise DisksNotHere("neither %s nor %s has the disks of %s" % (here, path, record.name))
    where = path if _has_disks(path) else here
    missing = missing_files(record, where)
    if missing:
        raise DisksNotHere(
            "%s lacks %s of %s. Nothing was changed" % (where, " and ".join(missing), record.name),
            hint=copy_hints.put_disks_back(where),
        )


def _has_disks(path):
    return bool(set(paths.entries(path)) - set(BESIDE))


def _put_back(instance, record, path):
    here = paths.instance(instance.host.pool_of(record), instance.uuid)
    if _has_disks(path):
        os.rename(path, here)
        paths.sync_directory(os.path.dirname(path))
        paths.sync_directory(os.path.dirname(here))
    instance.observe("beside")
    state, tpm = durable.read_in(here, paths.SWTPM_FILE, mode=paths.PASS_MODE), paths.tpm_state(instance.uuid)
    if state:
        durable.make_directories(os.path.dirname(tpm), durable.DIRECTORY_MODE)
        durable.write_at(tpm, state, durable.FILE_MODE)
    for name in BESIDE:
        if os.path.lexists(os.path.join(here, name)):
            durable.remove_at(os.path.join(here, name))
    if os.path.isdir(path):
        paths.remove_directory(path)
