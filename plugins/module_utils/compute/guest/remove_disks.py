# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Removes data disks of an existing instance that runs or is off, with all that is on them. A person has named each.

    the guest releases them -> its record forgets them, and their room is free -> their files go

The next run with the same names finishes a killed one: a file that no record names goes, too.
"""

from __future__ import annotations

import os

from ...model import data_disks
from .. import paths
from ..disk import disk as disks
from ..disk import disk_chain, virtual_size
from ..record import journal, ledger
from . import domain_xml, hardware
from .update_disks import take_from_guest


def found(instance, record, names):
    """Return {name: GiB} of those of the disks that are there, by their record or as a file."""
    has = data_disks.shown(record.spec)
    there = {name: has.get(name) for name in names if name in has or os.path.lexists(_path(instance, record, name))}
    return {name: size_gb or _file_gb(instance, record, name) for name, size_gb in there.items()}


def remove(instance, record, names):
    """Return whether there was one."""
    there = found(instance, record, names)
    if not there:
        return False
    instance.host.require_prepared()
    _check(instance, record, there)
    planned = (disk for disk in disks.plan(record.spec) if disk.kind == disks.DATA and disk.serial in there)
    gone = {disk.serial: domain_xml.target_of_data(disk) for disk in planned}
    spec = hardware.without(record.spec, ["disk/" + target for target in gone.values()])
    new = record.replace(spec=dict(spec, disks=data_disks.without(data_disks.of(spec), there)))
    take_from_guest(instance, new, {_path(instance, record, name): "data disk %s" % name for name in there})
    if gone:
        less_gb = data_disks.total_gb(record.spec) - data_disks.total_gb(new.spec)
        new = new.replace(resources=ledger.less_disk(record.resources, less_gb))
        instance.observe("disks record")
        event = journal.noted(new, "remove_disks", disks={name: there[name] for name in gone})
        instance.store.compare_and_swap(record, event.next())
    instance.observe("disks remove")
    for name in there:
        paths.remove(_path(instance, record, name))
        paths.remove(_path(instance, record, name) + ".tmp")
    return True


def _check(instance, record, there):
    """Raise if the guest has other disks than its record says, but for these: its data may be elsewhere then."""
    named = data_disks.shown(record.spec)
    more = [{"name": name, "size_gb": size_gb, "bus": "virtio"} for name, size_gb in there.items() if name not in named]
    disk_chain.check_unsaved(instance.host, record)
    disk_chain.check(
        instance.host, record.replace(spec=dict(record.spec, disks=data_disks.merged(data_disks.of(record.spec), more)))
    )


def _path(instance, record, name):
    return paths.instance(instance.host.pool_of(record), record.uuid, data_disks.file_of(name))


def _file_gb(instance, record, name):
    size = virtual_size.read(_path(instance, record, name), "qcow2")[0]
    return max(1, -(-size // disks.GIB))
