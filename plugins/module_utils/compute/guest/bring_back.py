# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings back a copy that was set aside, or half, when the host of the copy that stayed is lost for good.

    no record       the record from set-aside.json, in the phase setting_aside; from here on other runs see an owner
    setting_aside   disks renamed back, the line in set-aside.json removed, the guest defined, then phase active, off, with
                    a generation above that of the lost copy, so that this one counts when that host is back

Each step can be run again, and until the last one berth.kvm.keep_one can set the copy aside again.
"""

from __future__ import annotations

import os

from ...model import copy_hints, nics
from ...model.lifecycle import ACTIVE, SETTING_ASIDE
from ...model.move_errors import InstanceNotFound
from .. import durable, paths
from ..disk import owner
from ..errors import DisksNotHere, DisksUnfit
from ..record import journal
from . import definition, set_aside

BESIDE = ("domain.xml", "record.json")  # what was put beside the disks


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
    _check_disks(instance, record, set_aside.place(instance, record))
    return True


def addresses(instance):
    """Return the addresses that the copy that was set aside last has, as model/nics.py writes them. Changes nothing."""
    return nics.taken(_last_put_away(instance).spec.get("networks"))


def _last_put_away(instance):
    found = set_aside.listed(instance.store, instance.uuid)
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
        record = set_aside.read(instance, "bring back")
        if record.phase != SETTING_ASIDE:
            return set_aside.keep(instance, above)
        path = set_aside.place(instance, record)
        _check_disks(instance, record, path)
        set_aside.end_guest(instance, grace)  # it runs if nobody had come so far
        instance.observe("disks back")
        _put_back(instance, record, path)
        instance.observe("unlist")
        set_aside.unlist(instance.store, path)
        instance.observe("define")
        defined = definition.define(instance.host.connection, record, instance.host.for_guests(record.spec.get("pool")))
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
        return set_aside.would_keep(instance, above)
    _check_disks(instance, record, set_aside.place(instance, record))
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
    missing = set_aside.missing(record, where)
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
    for name in BESIDE:
        if os.path.lexists(os.path.join(here, name)):
            durable.remove_at(os.path.join(here, name))
    if os.path.isdir(path):
        paths.remove_directory(path)
