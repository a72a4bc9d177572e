# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Repairs a guest's definition that somebody changed by hand, from its record: on request, and before a start.

Only the definition of the next start is written again; a running guest gets no more than the packet filters that the
inventory asks for. A guest whose disks are not its record's is left alone: a new definition could lose what it wrote
last.
"""

from __future__ import annotations

import contextlib
import os

from ...model import adopted
from ...model.errors import InstanceExists
from ...model.lifecycle import ACTIVE, OWN
from .. import paths
from ..connection import LibvirtTimeout, LibvirtUnavailable
from ..disk import disk, disk_chain
from ..errors import BuildFailed, GuestNotSupported
from ..record import journal
from . import domain, domain_xml, hardware, live_differences, network, packet_filter, packet_path, seed, startable


def differing(instance, record):
    """Return live_differences.between, with what packet_path.py finds in the kernel. Empty if that cannot be known, or if libvirt
    does not know the guest."""
    try:
        guest = domain.find(instance.host.connection, instance.uuid)
        if guest is None or not live_differences.is_looked_at(record):
            return {}
        found, wrong = (
            live_differences.between(record, *domain.definitions(guest)),
            packet_path.packets_of(instance.host.connection, record),
        )
        return {**found, packet_path.IN_KERNEL: wrong} if wrong else found
    except live_differences.DAMAGED:
        return {}


def mend(instance, given_seed=None, dry=False, wanted=None):
    """Repair the definition on request, make a missing seed again from ``given_seed``, and give NICs the packet filters
    that the request ``wanted`` asks for. Return the differences that there were, [] if none. Leave an instance that is
    locked, in a move or partly built alone. Raise DiskChainChanged if the disks are not those of the record."""
    held = contextlib.nullcontext() if dry else instance.store.instance_lock(instance.uuid, timeout=instance.timeout)
    with held:
        record = instance.store.read(instance.uuid)
        if record is None or record.lock or (record.role, record.phase, record.op) != (OWN, ACTIVE, None):
            return []
        if adopted.of(record.spec):
            return []  # its definition is its own
        seedless = _bring_seed(instance, record, given_seed, dry)
        record, filtered = _with_filters(instance, record, wanted, dry)
        record = with_hardware(instance, record)
        differences = differing(instance, record).get("next_start") or []
        if differences:
            disk_chain.check_mend(instance.host, record)
        if differences and not dry:
            instance.observe("mend define")
            record = _define(instance, record)
            noted = journal.noted(record, "mend", parts=", ".join(part for part, _expected, _has in differences))
            instance.store.compare_and_swap(instance.store.read(instance.uuid), noted.next())
        differences = (
            differences + _filter_running(instance, record, wanted or {}, dry) + packets(instance, record, dry)
        )
        known = [part for part, _expected, _has in differences]
        return seedless + [difference for difference in filtered if difference[0] not in known] + differences


def packets(instance, record, dry):
    """Let the running guest's packets go as the record says. Return [the differences that are, or would be, repaired]."""
    connection = instance.host.connection
    wrong, left = (
        (packet_path.packets_of(connection, record), []) if dry else packet_path.mend_packets(connection, record)
    )
    mended = [each for each in wrong if each not in left and each["code"] in packet_path.MENDED]
    return [[each["nic"], "as its record says", each["said"]] for each in mended]


def _filter_running(instance, record, wanted, dry):
    """Put the filters that ``wanted`` asks for before the NICs of the running guest that have none. Return [the
    differences]. If libvirt refuses that, the guest has them from its next start on, as the tables say."""
    guest, done = domain.find(instance.host.connection, instance.uuid), []
    live = domain.definitions(guest)[0] if guest is not None else None
    for mac, xml in packet_filter.of_running(live, record, wanted).items() if live else ():
        with contextlib.suppress(BuildFailed, GuestNotSupported):
            if not dry:
                packet_filter.define(instance.host.connection, record)
                domain.update(guest, xml)
            done.append(["network interface %s of the running guest" % mac, "packet filter", ""])
    return done


def _with_filters(instance, record, wanted, dry):
    """Return (the record with the packet filters that ``wanted`` asks for on NICs without one, [the differences]). The
    record says so before the filter is in the definition."""
    spec, macs = packet_filter.with_asked_filters(record.spec, wanted or {})
    if not macs:
        return record, []
    disk_chain.check_mend(instance.host, record)
    network.check(instance.host.connection, [nic for nic in spec["networks"] if nic["mac"] in macs])
    new = record.replace(spec=spec)
    if not dry:
        instance.observe("mend filters")
        noted = journal.noted(new, "filter_nics", macs=", ".join(macs))
        new = instance.store.compare_and_swap(record, noted.next())
    return new, [["network interface %s" % mac, "packet filter", ""] for mac in macs]


def _bring_seed(instance, record, given_seed, dry):
    """Return [the difference] if the seed was missing."""
    pool_path = instance.host.pool_of(record)
    files = [paths.instance(pool_path, record.uuid, part.file) for part in disk.of_seed(record.spec)]
    if given_seed is None or all(map(os.path.lexists, files)):
        return []
    disk_chain.check_mend(instance.host, record)  # where the other files are gone too, their storage is not mounted
    startable.check_owner(instance.host, record)
    if not dry:
        startable.own_disks(instance.host, record)
        seed.build(pool_path, record, given_seed, [planned.name for planned in disk.plan(record.spec)])
    return [[seed.FILE, "there", ""]]


def before_start(instance, record):
    """Do the same for a guest that is off and about to be started. What prevents the repair prevents no start."""
    connection = instance.host.connection
    if record.lock or domain.is_active(connection, instance.uuid) or domain.is_saved(connection, instance.uuid):
        return  # one with saved memory goes on with the definition that it was saved with
    try:
        if differing(instance, record).get("next_start") and not disk_chain.found_on(instance.host, record):
            _define(instance, with_hardware(instance, record))
    except (LibvirtTimeout, LibvirtUnavailable):
        raise
    except (BuildFailed, GuestNotSupported, InstanceExists):
        pass  # for example a machine type that this QEMU lacks: the guest starts as defined, and the facts report it


def with_hardware(instance, record):
    """Return an older version's record with the machine type and the addresses that its guest has now, and any record
    with those of disks that were added since."""
    text = domain.definition(instance.host.connection, instance.uuid)
    return record if text is None else record.replace(spec=hardware.keep(record.spec, text))


def _define(instance, record):
    return domain_xml.define_guest(instance.host.connection, record, instance.host.for_guests(record.spec.get("pool")))
