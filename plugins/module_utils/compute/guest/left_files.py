# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of an adopted instance that a move brought into the directories of instances: from these nothing but an instance
starts, so a leave brings them out again."""

from __future__ import annotations

import os

from ...model import adopted, hints
from .. import paths
from ..disk import disk
from ..errors import DisksWithoutRecord
from . import domain_xml


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
