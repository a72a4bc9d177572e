# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nova's rescue, and its way back: the guest boots from a disk that is made from another image, with all of its own disks beside it.

    rescue:   the rescue disk -> record: rescued, with its room -> definition -> guest off -> on
    unrescue: guest off -> definition -> record: active -> on, and the rescue disk is removed

The record's request decides what the guest boots from at each start, so whoever starts it in between boots what the record says.
"""

from __future__ import annotations

import contextlib
import os

from ...model import operation_hints, rescues, vm_states
from ...model.errors import BerthError, InstanceExists
from ...model.lifecycle import RESCUING, UNRESCUING
from .. import paths
from ..disk import disk as disks
from ..disk import disk_chain, image
from ..errors import BuildFailed, GuestNotSupported
from ..record import journal, ledger
from . import domain_xml, mend, start, startable
from .summary import is_started

RESCUE, UNRESCUE = "rescue", "unrescue"


class RescueNotPossible(BerthError):
    """The instance cannot boot from that image now. Nothing was changed."""


def rescue(instance, params):
    """``params``: the arguments of module instance: rescue_image and shutdown_timeout. Return whether anything changed."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        if not would_rescue(instance, params):
            return False
        record = instance.at_rest(RESCUE)
        startable.own_disks(instance.host, record)
        if not rescues.of(record.spec):
            record = _begin(instance, record, params["rescue_image"])
        if record.task_state == RESCUING:  # the guest may run from its own disk
            instance.observe("rescue stop")
            start.end(instance, record, params["shutdown_timeout"])
        start.converge(instance, record)
        return True


def would_rescue(instance, params):
    record, host, source = instance.at_rest(RESCUE), instance.host, params["rescue_image"]
    begun = rescues.of(record.spec)
    if begun and begun["image"]["checksum"] != source["checksum"]:
        raise RescueNotPossible(
            "%s is rescued from image %s" % (record.name, begun["image"]["name"]),
            hint=operation_hints.unrescue_first(record.name),
        )
    if begun:
        return not is_started(host, record)
    host.require_prepared()
    disk_chain.check_unsaved(host, record)
    disk_chain.check_stop(host, record)
    disk_chain.check_mend(host, record)
    startable.check(host, record)
    domain_xml.render(record.replace(spec=rescues.begun(record.spec, source, 0)), _guests(instance, record))
    return True


def _guests(instance, record):
    return instance.host.for_guests(record.spec.get("pool"))


def _begin(instance, record, source):
    """Return the record of a rescue whose disk and definition are there. The guest is still as it was."""
    instance.observe("rescue image")
    path = paths.instance(instance.host.pool_of(record), record.uuid, disks.RESCUE.file)
    size_gb = _make_disk(instance, record, source, path)
    try:
        return _define(instance, record, _claim(instance, record, source, size_gb))
    except (LookupError, BerthError):
        if not rescues.of(instance.store.read(instance.uuid).spec):
            paths.remove(path)
        raise


def _make_disk(instance, record, source, path):
    """Make the rescue disk. Return its GiB."""
    base = image.ensure(instance.host.pool_of(record), source, 0, instance.host.settings)
    made = path + ".tmp"
    paths.remove(made)
    disks.make(disks.RESCUE, made, base)
    os.chmod(made, 0o600)
    paths.publish(made, path)
    return -(-base["virtual_size"] // disks.GIB)


def _claim(instance, record, source, size_gb):
    instance.observe("rescue record")
    own = mend.with_hardware(instance, record).spec  # disks that were added since keep their places, too
    with instance.store.host_lock():
        more = ledger.allocate(instance.host, record, size_gb)
        rescued = record.replace(
            spec=rescues.begun(own, source, size_gb),
            resources=ledger.with_more(record.resources, more),
            task_state=RESCUING,
            **vm_states.said(vm_states.RESCUED),
        )
        return instance.swap(journal.noted(rescued, RESCUE, image=source["name"]))


def _define(instance, before, record):
    """Write the definition of the next start. If this host cannot have it, the instance is again as ``before``."""
    instance.observe("rescue define")
    connection, host = instance.host.connection, _guests(instance, record)
    try:
        return instance.swap(domain_xml.define_guest(connection, record, host))
    except (BuildFailed, GuestNotSupported, InstanceExists) as error:
        # The packet filters come second: where they fail, libvirt has the definition.
        with contextlib.suppress(BerthError):
            domain_xml.define_guest(connection, ended(record), host)
        states = {part: getattr(before, part) for part in ("vm_state", "power_state", "task_state")}
        faulted = journal.faulted(record, error)
        instance.swap(faulted.replace(spec=before.spec, resources=before.resources, **states))
        raise


def unrescue(instance, params):
    """Boot the guest from its own disk again. Return whether anything changed."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        if not would_unrescue(instance):
            return False
        record = instance.at_rest(UNRESCUE)
        if rescues.of(record.spec):
            startable.own_disks(instance.host, record)
            record = _end(instance, record, params["shutdown_timeout"])
        start.converge(instance, record)
        return True


def would_unrescue(instance):
    """A start that was killed is finished, too."""
    record = instance.at_rest(UNRESCUE)
    if not rescues.of(record.spec):
        return record.task_state is not None
    instance.host.require_prepared()
    disk_chain.check_unsaved(instance.host, record)
    startable.check(instance.host, ended(record))
    return True


def ended(record):
    """Return the record without the rescue and its room."""
    left = ledger.less_disk(record.resources, rescues.total_gb(record.spec))
    return record.replace(spec=rescues.ended(record.spec), resources=left)


def _end(instance, record, grace):
    """The definition comes before the record: with the disk of a rescue that the record does not name, no start would repair it."""
    record = instance.swap(record.replace(task_state=UNRESCUING))
    instance.observe("unrescue stop")
    start.end(instance, record, grace)
    instance.observe("unrescue define")
    left = domain_xml.define_guest(instance.host.connection, ended(record), _guests(instance, record))
    instance.observe("unrescue record")
    return instance.swap(journal.noted(left, UNRESCUE).replace(**vm_states.said(vm_states.ACTIVE)))
