# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses out of the pools of networks, for the instances of a run that are to be made.

Taken is what any host tells of any instance, and each fixed address of the inventory. What a silent host's instances have is known
to that host alone, so nothing is given out while there is such a host. Two runs at once may choose the same; after its
claim each reads all hosts, and who sees its address with another instance chooses again.
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator, List, Mapping, Set

from ..model import address_clash, address_pool, nics
from ..model.errors import BerthError
from . import silence
from .errors import AddressesUnknown, AddressPoolExhausted
from .plan import CLAIMING, Instance, addresses, fail

MOST_CHOICES = 10  # of one address, while other runs take what was chosen
Index = address_clash.Index


def give(instances: Mapping[str, Instance], held: Index, silent: Mapping[str, str]) -> None:
    """Choose the addresses of all instances that are to be made; those for which there is none fail.

    ``held``: who has which address. ``silent``: the hosts that did not answer, and why.
    """
    for instance in instances.values():
        if instance.get("existing"):
            _keep(instance, held)
        elif instance.get("state") in (None, CLAIMING) and _pooled(instance):
            try:
                check_seen(instance, silent)
                _choose(instance, held)
            except BerthError as error:
                fail(instance, error)
            else:
                _hold(instance, held)


def held_by(instances: Mapping[str, Instance], told: Mapping[str, Iterable[Mapping[str, Any]]]) -> Index:
    """Who has which address. ``told``: host -> the instances that it tells of. Of one of these instances only the host that
    has it says what it has."""
    homes = {instance["uuid"]: instance.get("host") for instance in instances.values()}
    return addresses(
        {
            host: [record for record in records if homes.get(record["uuid"]) in (None, host)]
            for host, records in told.items()
        }
    )


def check_seen(instance: Instance, silent: Mapping[str, str]) -> None:
    """AddressesUnknown where an address is wanted of a pool, and a host is silent."""
    if silent and _pooled(instance):
        hosts = sorted(silent)
        raise AddressesUnknown(
            "%s would get an address of network %s, and instances on %s may have it already"
            % (
                instance["name"],
                _pooled(instance)[0]["network"],
                _and(silence.describe(host, silent) for host in hosts),
            ),
            hint=silence.hint(hosts, silent),
        )


def choose_again(instance: Instance, held: Index) -> bool:
    """Another address for each of the pool's that another instance has; whether all is well then."""
    instance["choices"] = instance.get("choices", 0) + 1
    if instance["choices"] > MOST_CHOICES:
        return False
    try:
        _choose(instance, held)
    except AddressPoolExhausted:
        return False
    return address_clash.clash(instance["spec"], held) is None


def fixed(given: Iterable[Mapping[str, Any]], networks: Mapping[str, Any], name: str) -> Index:
    """The fixed addresses and the MAC addresses that the inventory gives an instance, whether it is there or not."""
    found: Index = {}
    for nic in given:
        if nic["address"] and nic["network"] in networks:
            found[nics.address(networks[nic["network"]], nic["address"])] = {name: name}
        if nic["mac"]:
            found[nics.mac(nic["mac"])] = {name: name}
    return found


def _pooled(instance: Instance) -> List[Any]:
    """The NICs that have their address of a pool."""
    return [nic for nic in instance["spec"].get("networks") or () if nic.get("pool")]


def _keep(instance: Instance, held: Index) -> None:
    """An instance that is there has the address it was given, whatever has become of the pool."""
    for nic in _pooled(instance):
        address = next(_had(instance, nic, held), None)
        nic["address"] = address and "%s/%d" % (address, nic["prefixlen"])


def _choose(instance: Instance, held: Index) -> None:
    mine: Set[str] = set()
    for at, nic in enumerate(instance["spec"].get("networks") or ()):
        if nic.get("pool"):
            taken = _others(instance, nic, held) | mine
            claimed = (had for had in _had(instance, nic, held) if address_pool.has(nic["pool"], had))
            address = next((had for had in claimed if had not in taken), None)
            if address is None:
                who = "%s/%d" % (instance["uuid"], at)
                address = address_pool.choose(nic["pool"], taken, who, instance.get("choices", 0))
            if address is None:
                raise _exhausted(instance, nic, taken)
            nic["address"] = "%s/%d" % (address, nic["prefixlen"])
        if nic.get("address"):
            mine.add(str(nic["address"]).partition("/")[0])


def _exhausted(instance: Instance, nic: Mapping[str, Any], taken: Set[str]) -> AddressPoolExhausted:
    many = address_pool.size(nic["pool"])
    return AddressPoolExhausted(
        "%s needs an address of network %s: of the %d in its pool none is left"
        % (instance["name"], nic["network"], many),
        field="berth_networks_defined.%s.pool" % nic["network"],
        value=", ".join(nic["pool"])[:120],
        rule="more addresses than instances",
        size=many,
        free=0,
    )


def _others(instance: Instance, nic: Mapping[str, Any], held: Index) -> Set[str]:
    """The addresses on the NIC's network that other instances have."""
    found = set()
    for word, owners in held.items():
        address = nics.address_of(word, nic)
        if address and set(owners) != {instance["uuid"]}:
            found.add(address)
    return found


def _had(instance: Instance, nic: Mapping[str, Any], held: Index) -> Iterator[str]:
    """The addresses on the NIC's network that hosts tell of the instance itself."""
    for word, owners in held.items():
        address = nics.address_of(word, nic)
        if address and instance["uuid"] in owners:
            yield address


def _hold(instance: Instance, held: Index) -> None:
    for word in nics.taken(instance["spec"]["networks"]):
        held.setdefault(word, {})[instance["uuid"]] = instance["name"]


def _and(parts: Iterable[str]) -> str:
    return " and on ".join(parts)
