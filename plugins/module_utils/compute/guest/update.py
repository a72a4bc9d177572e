# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings an existing instance to what the inventory says of it by now, while its guest runs or is off. The guest is never stopped.

    data disks that are given up -> the others and volumes -> the guest releases NICs that go -> its record -> NICs that come
    -> definition -> seed -> limits

The record names what the guest is to have, so the next run finishes what was killed. A NIC's addresses belong to others only when
the guest has released it.
"""

from __future__ import annotations

import json
import os

from ...model import address_clash, data_disks, operation_hints, updates
from ...model.errors import BerthError
from ...model.request_spec import RequestSpec
from .. import paths
from ..connection import require_libvirt
from ..disk import attached, disk_chain, virtual_size
from ..disk import disk as disks
from ..errors import BuildFailed, GuestNotSupported
from ..record import journal, ledger
from ..record.ledger import Ledger, check_group
from . import domain, domain_xml, hardware, live_limits, network, packet_filter, seed, startable
from .update_disks import keep_definition, take_from_guest, update_disks, would_update_disks

METHOD = "update"  # of vm_states.CHANGES
TIMEOUT = 20  # s in which a guest releases a network interface
DAMAGED = (AttributeError, KeyError, TypeError, ValueError)


class NicNotAttached(BerthError):
    """The running guest cannot get another network interface. It gets it when it is started next."""


class LimitsNotApplied(BerthError):
    """The host cannot limit the running guest, such as without a cgroup controller or a queueing discipline; its record has the
    limits."""


class NicNotDetached(BerthError):
    """The running guest does not release the network interface, so it keeps it, and its addresses."""


def update(instance, params):
    """``params``: the arguments of module instance: spec, seed, disks, volumes, and only_claim: up to the record, which names the
    new addresses, before any guest has them. Return whether anything changed."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        record = _checked(instance, params)
        instance.updates = _planned(instance, record, params)
        if params["only_claim"]:
            return _take(instance, record, params["spec"])[1]
        startable.own_disks(instance.host, record)
        keep_definition(instance)
        removed = remove_disks(instance, record, params["discards"])
        disks = update_disks(instance, params["disks"], params["volumes"]) or removed
        record, taken = _take(instance, instance.store.read(instance.uuid), params["spec"])
        record, plugged = _plug(instance, record)
        seeded = _renew_seed(instance, record, params["seed"])
        return _limit(instance, record) or seeded or plugged or taken or disks


def would_update(instance, params):
    record = _checked(instance, params)
    instance.updates = _planned(instance, record, params)
    if params["only_claim"]:
        return updates.told(record.spec) != updates.told(updates.updated(record.spec, params["spec"]))
    return bool(would_update_disks(instance, params["disks"], params["volumes"]) or instance.updates)


def _checked(instance, params):
    record, wanted = instance.at_rest(METHOD), params["spec"]
    updates.check(record.name, record.spec, wanted)
    updates.check_discards(record.name, record.spec, params["discards"], params["disks"])
    startable.check_owner(instance.host, record)
    check_free(instance, record, updates.updated(record.spec, wanted))
    return record


def check_free(instance, record, spec):
    """Raise if an instance here has an address of the request, or its server group has no place for it here."""
    old = updates.by_mac(record.spec)
    new = [nic for mac, nic in updates.by_mac(spec).items() if mac not in old or updates.is_replugged(old[mac], nic)]
    network.check(instance.host.connection, new)
    if updates.told(spec) == updates.told(record.spec):
        return
    present = Ledger(instance.host).present
    held = address_clash.add_let_in(address_clash.index(present, " on this host"), present, " on this host")
    error = address_clash.clash(spec, held)
    if error:
        raise error
    if spec.get("group") != record.spec.get("group"):
        check_group(RequestSpec(spec).instance_group, spec, present)


def _planned(instance, record, params):
    """Return what changes, in words for people. What an interrupted run has left to do is told, too."""
    spec, guest = updates.updated(record.spec, params["spec"]), domain.find(instance.host.connection, instance.uuid)
    live, lasting = domain.definitions(guest) if guest is not None else (None, None)
    lacks = [mac for mac in updates.by_mac(record.spec) if live and domain.nic_of(live, mac) is None]
    has = {**record.spec, "networks": [nic for nic in record.spec.get("networks") or () if nic["mac"] not in lacks]}
    going = removable_disks(instance, record, params["discards"])
    found = updates.of_discards(record.spec, going, live is not None)
    found += updates.of_disks(record.spec, params["disks"], params["volumes"])
    found += updates.lines(has, spec, live is not None)
    if live and spec["flavor"] == record.spec["flavor"]:
        found += ["%s: as its flavor says, at once" % part for part in live_limits.differing(record, live)]
    if is_old_seed(instance, record.replace(spec=spec), params["seed"]):
        found.append(updates.of_seed(record.spec, spec))
    written = all(text is None or _is_noted(text, record) for text in (live, lasting))
    if not found and not (written and updates.told(spec) == updates.told(record.spec)):
        found.append(updates.REST)
    return found


def _running(instance):
    return domain.find_active(instance.host.connection, instance.uuid)


# ---- the record ------------------------------------------------------------------------------------------------------


def _take(instance, record, wanted):
    """Have the guest release NICs that go, then write the record. Return (record, whether anything changed)."""
    spec = updates.updated(record.spec, wanted)
    if updates.told(spec) == updates.told(record.spec):
        return record, False
    instance.host.require_prepared()
    old, new = updates.by_mac(record.spec), updates.by_mac(spec)
    gone = [mac for mac in old if mac not in new]
    replugged = [mac for mac in old if mac in new and updates.is_replugged(old[mac], new[mac])]
    _unplug(instance, record, gone)
    lines = updates.lines(record.spec, spec, _running(instance) is not None)
    with instance.store.host_lock():
        check_free(instance, record, spec)
        _unplug(instance, record, replugged)  # not before its new address is known to be free
        instance.observe("update record")
        changed = record.replace(spec=hardware.without(spec, ["interface/" + mac for mac in gone + replugged]))
        return instance.store.compare_and_swap(
            record, journal.noted(changed, METHOD, parts="; ".join(lines)).next()
        ), True


def _unplug(instance, record, macs):
    guest = _running(instance) if macs else None
    for mac in macs if guest is not None else ():
        instance.observe("update unplug")
        if not domain.detach_nic(guest, mac, TIMEOUT):
            raise NicNotDetached(
                "the guest of %s does not release network interface %s in %d s" % (record.name, mac, TIMEOUT),
                hint=operation_hints.stop_and_update(record.name),
            )


# ---- the guest -------------------------------------------------------------------------------------------------------


def _plug(instance, record):
    """Give the guest its NICs, and its definition what the record says. Return (record, whether anything changed). A guest
    that libvirt does not know is defined by its next start."""
    connection, guest = instance.host.connection, domain.find(instance.host.connection, instance.uuid)
    if guest is None:
        return record, False
    keep_definition(instance)
    live, lasting = domain.definitions(guest)
    macs = list(updates.by_mac(record.spec))
    lacking = [mac for mac in macs if live and domain.nic_of(live, mac) is None]
    behind = any(text and not _is_noted(text, record) for text in (live, lasting))
    if not (lacking or behind or any(domain.nic_of(lasting, mac) is None for mac in macs)):
        return record, False
    attached.write(instance.host.pool_of(record), record)
    instance.observe("update filters")
    packet_filter.define(connection, record)
    _attach(instance, guest, record, lacking)
    if live:
        record = record.replace(spec=hardware.keep(record.spec, domain.definitions(guest)[0] or live))
    instance.observe("update define")
    record = domain_xml.define_guest(connection, record, _host(instance, record))
    domain.note(guest, domain_xml.metadata(record)[0])
    packet_filter.remove_unnamed(connection, record)
    if record.spec != instance.store.read(instance.uuid).spec:
        record = instance.swap(record)
    return record, True


def _attach(instance, guest, record, macs):
    if not macs:
        return
    text = domain_xml.render(record, _host(instance, record))
    for mac in macs:
        instance.observe("update plug")
        try:
            domain.attach_element(guest, domain.nic_of(text, mac), require_libvirt().VIR_DOMAIN_AFFECT_LIVE)
        except (BuildFailed, GuestNotSupported) as error:
            raise NicNotAttached(
                "the running guest of %s cannot get network interface %s: %s" % (record.name, mac, error),
                hint=operation_hints.stop_and_update(record.name),
            )


def _limit(instance, record):
    guest = _running(instance)
    if guest is None:
        return False
    instance.observe("update limits")
    try:
        return live_limits.bring(guest, record)
    except (BuildFailed, GuestNotSupported) as error:
        raise LimitsNotApplied("the running guest of %s keeps the limits that it had: %s" % (record.name, error))


def _host(instance, record):
    return instance.host.for_guests(record.spec.get("pool"))


def _is_noted(text, record):
    """Whether the definition's copy of the record says the same: it is written last."""
    try:
        return updates.told(json.loads(domain.mark(text)["record"])["spec"]) == updates.told(record.spec)
    except DAMAGED:
        return False


# ---- the seed --------------------------------------------------------------------------------------------------------


def is_old_seed(instance, record, given):
    """Whether the seed is not what ``given`` makes. A running guest has the old file open."""
    if given is None:
        return False
    files = seed.files(instance.host.pool_of(record), record, given, _disks(record))
    return any(_content(path) != data for path, data in files.items())


def _renew_seed(instance, record, given):
    if not is_old_seed(instance, record, given):
        return False
    instance.observe("update seed")
    seed.build(instance.host.pool_of(record), record, given, _disks(record))
    return True


def _disks(record):
    return [planned.name for planned in disks.plan(record.spec)]


def _content(path):
    if not os.path.lexists(path):
        return None
    with open(path, "rb") as file:
        return file.read()


def removable_disks(instance, record, names):
    """Return {name: GiB} of those of the disks that are there, by their record or as a file."""
    has = data_disks.shown(record.spec)
    there = {
        name: has.get(name) for name in names if name in has or os.path.lexists(_path_of_data(instance, record, name))
    }
    return {name: size_gb or _file_gb(instance, record, name) for name, size_gb in there.items()}


def remove_disks(instance, record, names):
    """Remove data disks, of which a person has named each, with all that is on them: the guest releases them, its record forgets them,
    and their room is free; then their files go, also one that a killed run left. Return whether there was one."""
    there = removable_disks(instance, record, names)
    if not there:
        return False
    instance.host.require_prepared()
    _check_data_disks(instance, record, there)
    planned = (disk for disk in disks.plan(record.spec) if disk.kind == disks.DATA and disk.serial in there)
    gone = {disk.serial: domain_xml.target_of_data(disk) for disk in planned}
    spec = hardware.without(record.spec, ["disk/" + target for target in gone.values()])
    new = record.replace(spec=dict(spec, disks=data_disks.without(data_disks.of(spec), there)))
    take_from_guest(instance, new, {_path_of_data(instance, record, name): "data disk %s" % name for name in there})
    if gone:
        less_gb = data_disks.total_gb(record.spec) - data_disks.total_gb(new.spec)
        new = new.replace(resources=ledger.less_disk(record.resources, less_gb))
        instance.observe("disks record")
        event = journal.noted(new, "remove_disks", disks={name: there[name] for name in gone})
        instance.store.compare_and_swap(record, event.next())
    instance.observe("disks remove")
    for name in there:
        paths.remove(_path_of_data(instance, record, name))
        paths.remove(_path_of_data(instance, record, name) + ".tmp")
    return True


def _check_data_disks(instance, record, there):
    """Raise if the guest has other disks than its record says, but for these: its data may be elsewhere then."""
    named = data_disks.shown(record.spec)
    more = [{"name": name, "size_gb": size_gb, "bus": "virtio"} for name, size_gb in there.items() if name not in named]
    disk_chain.check_unsaved(instance.host, record)
    disk_chain.check(
        instance.host, record.replace(spec=dict(record.spec, disks=data_disks.merged(data_disks.of(record.spec), more)))
    )


def _path_of_data(instance, record, name):
    return paths.instance(instance.host.pool_of(record), record.uuid, data_disks.file_of(name))


def _file_gb(instance, record, name):
    size = virtual_size.read(_path_of_data(instance, record, name), "qcow2")[0]
    return max(1, -(-size // disks.GIB))
