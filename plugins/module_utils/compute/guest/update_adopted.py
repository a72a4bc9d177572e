# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings an adopted instance to what the inventory says of its NICs, metadata and server group, while its guest runs or is off.

    the guest releases NICs that go -> the record -> the guest gets NICs, each also for its next start -> the record has its definition

Its definition is its own: NICs are attached to it and detached from it, and nothing else of it changes. Whatever is killed, the
next run finds which NICs the guest has, and goes on.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple
from xml.etree import ElementTree

from ...model import adopted, adopted_update, operation_hints, updates
from ..connection import require_libvirt
from ..errors import BuildFailed, GuestNotSupported
from ..record import journal
from . import adoptable, domain, domain_xml, startable
from .update import METHOD, TIMEOUT, NicNotAttached, NicNotDetached, check_free

OF_ONE_START = ("alias", "target", "backend")  # what libvirt gives a NIC of a running guest alone

Nic = Mapping[str, Any]


def update(instance: Any, params: Mapping[str, Any]) -> bool:
    """``params``: as of update.py. Return whether anything changed."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        if not would_update(instance, params):
            return False
        instance.host.require_prepared()
        record, found = _checked(instance, params)
        _define(instance, record)
        record = _take(instance, record, _spec(record, params, found), found)
        if not params["only_claim"]:
            _plug(instance, record, bool(params["spec"].get("networks")))
        return True


def would_update(instance: Any, params: Mapping[str, Any]) -> bool:
    """What would change is told in ``instance.updates``."""
    record, found = _checked(instance, params)
    spec = _spec(record, params, found)
    runs = domain.is_active(instance.host.connection, instance.uuid)
    guest_has = {**record.spec, "networks": found} if params["spec"].get("networks") else record.spec
    has = {**guest_has, "networks": _as_recorded(record, guest_has["networks"])}
    instance.updates = [*updates.lines(has, spec, runs), *adopted_update.noted(record.spec, spec)]
    if params["only_claim"]:
        return updates.told(spec) != updates.told(record.spec)
    renewed = adoptable.renewed(instance.host.connection, record, instance.host.pool_of)
    if renewed.spec[adopted.KEY] != record.spec[adopted.KEY]:
        instance.updates.append(adopted_update.DEFINITION)
    return bool(instance.updates)


def _checked(instance: Any, params: Mapping[str, Any]) -> Tuple[Any, List[Nic]]:
    """Return the record, and the NICs that the guest will have at its next start."""
    record, host = instance.at_rest(METHOD), instance.host
    adopted_update.check_disks(record.name, params)
    adopted_update.check(record.name, params["spec"])
    updates.check(record.name, record.spec, params["spec"])
    startable.check_owner(host, record)
    guest = adoptable.of(host.connection, record.uuid, {})
    found = guest.networks if guest else list(record.spec.get("networks") or ())
    check_free(instance, record, _spec(record, params, found))
    return record, found


def _spec(record: Any, params: Mapping[str, Any], found: Sequence[Nic]) -> Dict[str, Any]:
    return adopted_update.updated(record.spec, params["spec"], found)


def _as_recorded(record: Any, found: Sequence[Nic]) -> List[Nic]:
    """Return the NICs as the record has them: no definition says their addresses."""
    known = updates.by_mac(record.spec)
    return [adoptable.as_known(nic, known.get(nic["mac"], {})) for nic in found]


def _define(instance: Any, record: Any) -> None:
    """Have a definition that NICs can be attached to, also if somebody has removed it."""
    connection = instance.host.connection
    guest = domain.find(connection, record.uuid)
    if guest is None:
        domain_xml.define_guest(connection, record, instance.host.for_guests(record.spec.get("pool")))
    else:
        domain.keep_definition(connection, guest)


def _take(instance: Any, record: Any, spec: Dict[str, Any], found: Sequence[Nic]) -> Any:
    """Have the guest release NICs that go, then write the record. Return it."""
    has, new = {nic["mac"]: nic for nic in _as_recorded(record, found)}, updates.by_mac(spec)
    if spec["networks"] != record.spec.get("networks"):
        go = [mac for mac, nic in has.items() if mac not in new or updates.is_replugged(nic, new[mac])]
        _unplug(instance, record, go)
    if updates.told(spec) == updates.told(record.spec):
        return record
    with instance.store.host_lock():
        check_free(instance, record, spec)
        instance.observe("update record")
        noted = journal.noted(record.replace(spec=spec), METHOD, parts="; ".join(instance.updates))
        return instance.store.compare_and_swap(record, noted.next())


def _unplug(instance: Any, record: Any, macs: Sequence[str]) -> None:
    guest = domain.find(instance.host.connection, record.uuid)
    for mac in macs:
        instance.observe("update unplug")
        if not domain.detach_nic(guest, mac, TIMEOUT):
            raise NicNotDetached(
                "the guest of %s does not release network interface %s in %d s" % (record.name, mac, TIMEOUT),
                hint=operation_hints.stop_and_update(record.name),
            )


def _plug(instance: Any, record: Any, all_named: bool) -> None:
    """``all_named``: whether the inventory names the NICs; else those that the guest has stay."""
    guest = domain.find(instance.host.connection, record.uuid)
    for mac in updates.by_mac(record.spec) if all_named else ():
        _attach(instance, guest, record, mac)
    renewed = adoptable.renewed(instance.host.connection, record, instance.host.pool_of)
    if renewed.spec != record.spec:
        instance.observe("update define")
        record = instance.swap(renewed)
    domain.note(guest, domain_xml.metadata(record)[0])


def _attach(instance: Any, guest: Any, record: Any, mac: str) -> None:
    """The definition of the next start gets the NIC as the running guest has it, at the same place."""
    library = require_libvirt()
    live, lasting = domain.definitions(guest)
    try:
        if live and domain.nic_of(live, mac) is None:
            instance.observe("update plug")
            domain.attach_element(guest, domain_xml.added_nic(record, mac), library.VIR_DOMAIN_AFFECT_LIVE)
            live = domain.definitions(guest)[0]
        if domain.nic_of(lasting, mac) is None:
            element = domain.nic_of(live, mac) if live else domain_xml.added_nic(record, mac)
            instance.observe("update plug for the next start")
            domain.attach_element(guest, _lasting(element), library.VIR_DOMAIN_AFFECT_CONFIG)
    except (BuildFailed, GuestNotSupported) as error:
        raise NicNotAttached(
            "the guest of %s cannot get network interface %s: %s" % (record.name, mac, error),
            hint=operation_hints.stop_and_update(record.name),
        )


def _lasting(element: ElementTree.Element) -> ElementTree.Element:
    for tag in OF_ONE_START:
        for part in element.findall(tag):
            element.remove(part)
    return element
