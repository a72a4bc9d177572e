# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has which address on all hosts, and the choice of addresses from the pools of networks for new instances.

An address is taken if any host reports it for any instance, or if the inventory gives it as a fixed address. Only a
silent host knows the addresses of its own instances, so none is given out while a host is silent, and no instance is made
with a fixed address or a MAC address of the inventory. Two runs at once may
choose the same address; each reads all hosts after its claim, and a run that sees its address on another instance
chooses again.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, Mapping, Sequence, Set, Tuple

from ..model import address_clash, copy_hints, fleet_hints, nics
from ..model.address_pool import choose, has, size
from ..model.errors import BerthError
from . import silence
from .errors import AddressesUnknown, AddressPoolExhausted
from .fleet import Fleet
from .plan import CLAIMING, Instance, fail

MOST_CHOICES = 10  # per instance, in case other runs keep taking the address that was chosen
Index = address_clash.Index


def give(instances: Mapping[str, Instance], held: Index, silent: Mapping[str, str]) -> None:
    """Choose the addresses of all instances to be created. An instance without a free address fails.

    ``held``: who has which address. ``silent``: the hosts that did not answer, and why.
    """
    for instance in instances.values():
        if instance.get("existing"):
            _keep(instance, held)
        elif instance.get("state") in (None, CLAIMING):
            try:
                check_seen(instance, silent)
                _choose(instance, held)
            except BerthError as error:
                fail(instance, error)
            else:
                _hold(instance, held)


def of_nics(reported: Iterable[str]) -> Dict[str, List[str]]:
    """MAC address -> the addresses that its NIC has, of an instance by the ``reported`` texts of nics.taken()."""
    found: Dict[str, List[str]] = {}
    mac = ""
    for entry in reported:
        mac = entry if entry.startswith(nics.mac("")) else mac
        found.setdefault(mac, []).extend([] if entry == mac else [entry])
    return found


def only_new(instance: Instance, reported: Iterable[str]) -> Instance:
    """The existing instance with those NICs alone that get an address which it does not have yet. A NIC that it has keeps the
    address that it was given from a pool. ``had``: MAC address -> which addresses such a NIC has by now, of those that it gets."""
    has, new, had = of_nics(reported), [], {}
    for nic in instance["spec"].get("networks") or ():
        own = has.get(nics.mac(nic["mac"]))
        kept = next((address for _entry, address in on_network(nic, own or ())), None)
        if nic.get("pool") and kept:
            nic["address"] = "%s/%d" % (kept, nic["prefixlen"])
        if own is None or not set(nics.taken([nic])) <= {nics.mac(nic["mac"]), *own} or (nic.get("pool") and not kept):
            new.append(nic)
            had.update({} if own is None else {nic["mac"]: _by_now(nic, own)})
    spec = {**{part: instance["spec"][part] for part in ("uuid", "name")}, "networks": new, "had": had}
    only: Instance = {**instance, "spec": spec}
    return only


def _by_now(nic: Mapping[str, Any], own: Iterable[str]) -> Dict[str, Any]:
    """{address, address6} of a NIC that gets others on its network, or None."""
    found = {nics.ip_version(address): address for _entry, address in on_network(nic, own)}
    wanted = {part: str(nic.get(part) or "") for part in ("address", "address6")}
    parts = {part: (found.get(nics.ip_version(text)), text.partition("/")[2]) for part, text in wanted.items() if text}
    return {**dict.fromkeys(wanted), **{part: "%s/%s" % each for part, each in parts.items() if each[0]}}


def give_new(only: Instance, reported: Iterable[str], held: Index, silent: Mapping[str, str]) -> None:
    """Choose the addresses of only_new(). Raise what a create does, also for an address that is taken."""
    check_seen(only, silent)
    own = {entry: {"its other NICs": only["name"]} for entry in reported if not entry.startswith(nics.mac(""))}
    _choose(only, {**held, **own})
    clash = address_clash.clash(only["spec"], held)
    if clash:
        raise clash
    _hold(only, held)


def refuse_taken(instances: Mapping[str, Instance], guests: Index) -> None:
    """Fail what would be created with an address of ``guests``, see of_guests()."""
    for instance in instances.values():
        error = address_clash.clash(instance["spec"], guests)
        if error and not instance.get("existing") and instance.get("state") in (None, CLAIMING):
            fail(instance, error)


def of_guests(reported: Mapping[str, Iterable[Mapping[str, Any]]]) -> Index:
    """Which guests without a record have which address. After the claims the hosts tell only of their records."""
    return addresses(
        {host: [instance for instance in told if instance.get("foreign")] for host, told in reported.items()}
    )


def held_by(instances: Mapping[str, Instance], reported: Mapping[str, Iterable[Mapping[str, Any]]]) -> Index:
    """Who has which address. ``reported``: host -> the instances that it reports. For the plan's ``instances`` only the
    report of their own host counts."""
    homes = {instance["uuid"]: instance.get("host") for instance in instances.values()}
    return addresses(
        {
            host: [record for record in records if homes.get(record["uuid"]) in (None, host)]
            for host, records in reported.items()
        }
    )


def check_seen(instance: Instance, silent: Mapping[str, str]) -> None:
    """Raise AddressesUnknown if the instance needs an address that an instance on a silent host may have: one of a pool, a
    fixed one, or a MAC address that the inventory gives."""
    if not silent:
        return
    pooled = _pooled(instance)
    wanted = ["an address of network %s" % pooled[0]["network"]] if pooled else _given(instance)
    if wanted:
        hosts = sorted(silent)
        raise AddressesUnknown(
            "%s would get %s, but it may already belong to an instance on %s"
            % (instance["name"], wanted[0], _and(silence.describe(host, silent) for host in hosts)),
            hint=silence.hint(hosts, silent),
        )


def reserved(instances: Mapping[str, Instance], held: Index) -> Index:
    """The addresses of ``held`` that the pools of these instances could give out."""
    pools = {
        (nic["type"], nic["source"], nic.get("vlan"), *nic["pool"]): nic
        for instance in instances.values()
        for nic in _pooled(instance)
    }
    found = ((entry, nic["pool"], each) for nic in pools.values() for entry, each in on_network(nic, held))
    return {entry: held[entry] for entry, pool, each in found if has(pool, each)}


def choose_again(instance: Instance, held: Index, kept: Index) -> bool:
    """Replace each pool address that another instance has too. Return whether no clash is left.

    ``held``: who has which address by the hosts' records; ``kept``: what else is not given out, see reserved().
    """
    instance["choices"] = instance.get("choices", 0) + 1
    if instance.get("take_over") or instance["choices"] > MOST_CHOICES:
        return False
    try:
        _choose(instance, {entry: {**kept.get(entry, {}), **held.get(entry, {})} for entry in {**kept, **held}})
    except AddressPoolExhausted:
        return False
    return address_clash.clash(instance["spec"], held) is None


def with_chosen(spec: Mapping[str, Any], networks: Iterable[Mapping[str, Any]]) -> Dict[str, Any]:
    """The request with the addresses of those ``networks`` that were chosen again."""
    chosen = {nic["mac"]: nic for nic in networks}
    return {**spec, "networks": [{**nic, **chosen.get(nic["mac"], {})} for nic in spec["networks"]]}


def fixed(wanted: Iterable[Mapping[str, Any]], networks: Mapping[str, Any], name: str) -> Index:
    """The fixed addresses and MAC addresses that the inventory gives an instance, whether it exists or not."""
    found: Index = {}
    for nic in wanted:
        if nic["network"] in networks:
            texts = nics.asked(nic["address"])
            found.update((nics.address(networks[nic["network"]], text), {name: name}) for text in texts)
        if nic["mac"]:
            found[nics.mac(nic["mac"])] = {name: name}
    return found


def _pooled(instance: Instance) -> List[Any]:
    """The NICs that get their address from a pool."""
    return [nic for nic in instance["spec"].get("networks") or () if nic.get("pool")]


def _given(instance: Instance) -> List[str]:
    """The addresses that the inventory gives; a MAC address that is made from the instance's own uuid is nobody else's."""
    networks = instance["spec"].get("networks") or ()
    fixed_ones = [nics.address(nic, each) for nic in networks for each in nics.addresses(nic)]
    macs = ((at, str(nic["mac"]).lower()) for at, nic in enumerate(networks) if nic.get("mac"))
    return fixed_ones or [nics.mac(mac) for at, mac in macs if mac != nics.own_mac(instance["uuid"], at)]


def _keep(instance: Instance, held: Index) -> None:
    """An existing instance keeps the addresses that it was given, even if the pool has changed since: of several NICs on one network
    each its own, in their order."""
    others = (nic for nic in instance["spec"].get("networks") or () if not nic.get("pool"))
    kept = {text.partition("/")[0] for nic in others for text in nics.addresses(nic)}
    for nic in _pooled(instance):
        address = next((each for each in _had(instance, nic, held) if each not in kept), None)
        nic["address"] = address and "%s/%d" % (address, nic["prefixlen"])
        kept.add(address or "")


def _choose(instance: Instance, held: Index) -> None:
    chosen: Set[str] = set()
    for at, nic in enumerate(instance["spec"].get("networks") or ()):
        if nic.get("pool") and not instance.get("take_over"):  # what is taken over keeps what it has
            taken = _others(instance, nic, held) | chosen
            claimed = (candidate for candidate in _had(instance, nic, held) if has(nic["pool"], candidate))
            address = next((candidate for candidate in claimed if candidate not in taken), None)
            if address is None:
                who = "%s/%d" % (instance["uuid"], at)
                address = choose(nic["pool"], taken, who, instance.get("choices", 0))
            if address is None:
                raise _exhausted(instance, nic)
            nic["address"] = "%s/%d" % (address, nic["prefixlen"])
        chosen.update(text.partition("/")[0] for text in nics.addresses(nic))


def _exhausted(instance: Instance, nic: Mapping[str, Any]) -> AddressPoolExhausted:
    many = size(nic["pool"])
    return AddressPoolExhausted(
        "%s needs an address of network %s, but none of the %d addresses in its pool is left"
        % (instance["name"], nic["network"], many),
        field="berth_networks_defined.%s.pool" % nic["network"],
        value=", ".join(nic["pool"])[:120],
        rule="more addresses than instances",
        hint=fleet_hints.enlarge_pool(nic["network"]),
        size=many,
        free=0,
    )


def _others(instance: Instance, nic: Mapping[str, Any], held: Index) -> Set[str]:
    """The addresses on the NIC's network that other instances have."""
    return {address for entry, address in on_network(nic, held) if set(held[entry]) != {instance["uuid"]}}


def _had(instance: Instance, nic: Mapping[str, Any], held: Index) -> Iterator[str]:
    """The addresses on the NIC's network that hosts report for the instance itself."""
    return (address for entry, address in on_network(nic, held) if instance["uuid"] in held[entry])


def on_network(nic: Mapping[str, Any], held: Iterable[str]) -> Iterator[Tuple[str, str]]:
    """(entry, the IP address in it) of those on the NIC's network."""
    begin, end = nics.address(nic, "\0").split("\0")
    for entry in held:
        if entry.startswith(begin) and entry.endswith(end) and len(entry) > len(begin) + len(end):
            yield entry, entry[len(begin) : len(entry) - len(end)]


def _hold(instance: Instance, held: Index) -> None:
    for entry in nics.taken(instance["spec"]["networks"]):
        held.setdefault(entry, {})[instance["uuid"]] = instance["name"]


def _and(parts: Iterable[str]) -> str:
    return " and on ".join(parts)


def addresses(held: Mapping[str, Iterable[Mapping[str, Any]]]) -> address_clash.Index:
    """Who has which address on any host. ``held``: host -> its records. An instance's own addresses take precedence
    over those that filters let in for it."""
    found: address_clash.Index = {}
    records_of = {host: list(records) for host, records in held.items()}
    for host, records in records_of.items():
        for nic, names in address_clash.index(records, " on %s" % host).items():
            found.setdefault(nic, {}).update(names)
    for host, records in records_of.items():
        address_clash.add_let_in(found, records, " on %s" % host)
    return found


def check_not_given_away(fleet: Fleet, name: str, uuid: str, host: str) -> None:
    """Raise AddressTaken if another instance or guest has a MAC address or a fixed address of the instance on ``host``,
    whose record comes back: no run saw that it has them while its host was silent or its copy was set aside."""
    told = (told for told in fleet.documents[host]["instances"] if told["uuid"] == uuid)
    check_addresses_kept(fleet, name, uuid, host, [entry for each in told for entry in each.get("nics") or ()])


def check_addresses_kept(fleet: Fleet, name: str, uuid: str, host: str, own: Sequence[str]) -> None:
    """As check_not_given_away, of a copy on ``host`` that has these addresses, as model/nics.py writes them."""
    for other, document in fleet.documents.items():
        held = address_clash.index((told for told in document["instances"] if told["uuid"] != uuid), " on %s" % other)
        for entry in own:
            if entry in held:
                raise address_clash.AddressTaken(
                    "%s cannot be restored on %s: %s now has its %s"
                    % (name, host, " and ".join(sorted(held[entry].values())), entry),
                    hint=copy_hints.one_keeps_the_address(name),
                    host=host,
                )
