# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The address pool of a network: addresses for instances that name none.

A pool is a list of ranges such as 192.0.2.10-192.0.2.99. The search for an address begins at a place that follows
from the instance's uuid: the instance finds the same address again, and two simultaneous runs seldom choose the same.
Who has which address, and when one is given, is in conductor/addressing.py.
"""

from __future__ import annotations

import functools
import ipaddress
import uuid
from typing import Any, Collection, Iterable, List, Mapping, Optional, Tuple

from .errors import InvalidInput
from .messages import Document
from .schema import Fields, ListOf

Span = Tuple[int, int]  # the first and the last address of a range, as numbers
MOST_RANGES = 256


class AddressRange:
    """A range of addresses, a single address or a whole network; check() returns the text first-last."""

    rule = "first-last, an address or a network, such as 192.0.2.10-192.0.2.99 or 192.0.2.64/26"

    def check(self, value: Any, field: str) -> str:
        try:
            if not isinstance(value, str) or "%" in value:
                raise ValueError
            if "/" in value:
                network = ipaddress.ip_network(value)
                return "%s-%s" % (network[0], network[-1])
            first, dash, last = value.partition("-")
            begin, end = (ipaddress.ip_address(text.strip()) for text in (first, last if dash else first))
            if begin.version != end.version or int(begin) > int(end):
                raise ValueError
            return "%s-%s" % (begin, end)
        except ValueError:
            raise InvalidInput(field, value, self.rule)


POOL = Fields(
    {"ranges": ListOf(AddressRange(), longest=MOST_RANGES), "exclude": ListOf(AddressRange(), longest=MOST_RANGES)},
    defaults={"ranges": [], "exclude": []},
)


def check_inside(network: Document, field: str) -> None:
    """Refuse a pool that is outside its network's cidr."""
    if network["pool"] is None:
        return
    if not network["cidr"]:
        raise InvalidInput(field + ".cidr", None, "needed where there is a pool")
    cidr = ipaddress.ip_network(network["cidr"])
    for part in ("ranges", "exclude"):
        for at, text in enumerate(network["pool"][part]):
            if any(ipaddress.ip_address(end) not in cidr for end in text.split("-")):
                raise InvalidInput("%s.pool.%s[%d]" % (field, part, at), text, "addresses in %s" % cidr)


def check_any(network: Document, field: str) -> None:
    """Refuse a pool inside its network that has no address to give."""
    if network["pool"] is not None and not ranges(network):
        raise InvalidInput(field + ".pool", network["pool"], "at least one address that may be given to an instance")


def ranges(network: Mapping[str, Any]) -> List[str]:
    """Return the pool's ranges without the addresses of the network itself, its gateway and its name servers."""
    cidr = ipaddress.ip_network(network["cidr"])
    spans = _merged(_span(text) for text in network["pool"]["ranges"] or ["%s-%s" % (cidr[0], cidr[-1])])
    reserved = [network["gateway"], *network["nameservers"], *map(str, unusable(cidr))]
    alone = ["%s-%s" % (address, address) for address in reserved if address and ipaddress.ip_address(address) in cidr]
    for taken in _merged(_span(text) for text in [*network["pool"]["exclude"], *alone]):
        spans = [part for span in spans for part in _without(span, taken)]
    address = type(cidr[0])
    return ["%s-%s" % (address(first), address(last)) for first, last in spans]


def unusable(cidr: Any) -> List[Any]:
    """The addresses of a network that no machine can have: the network's own and, in IPv4, the broadcast address."""
    if cidr.prefixlen >= cidr.max_prefixlen - 1:
        return []
    return [cidr[0], cidr[-1]] if cidr.version == 4 else [cidr[0]]


def size(pool: Iterable[str]) -> int:
    """How many addresses there are in ranges as ranges() gives them."""
    return sum(last - first + 1 for first, last in map(_span, pool))


def has(pool: Iterable[str], text: str) -> bool:
    """Whether the text, which a host may have sent, is an address of the pool."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    number = int(address)
    # an address of IPv6 may be the same number as one of IPv4
    return any(address.version == version and first <= number <= last for version, first, last in map(_numbers, pool))


def choose(pool: Iterable[str], taken: Collection[str], who: str, again: int = 0) -> Optional[str]:
    """An address of the pool that is not ``taken``, or None. ``who`` and ``again`` decide where the search begins."""
    spans = [_span(text) for text in pool]
    address = ipaddress.ip_address(next(iter(pool)).partition("-")[0]).__class__
    many = sum(last - first + 1 for first, last in spans)
    begin = int(uuid.uuid5(uuid.NAMESPACE_OID, "%s/%d" % (who, again))) % many
    for step in range(min(many, len(taken) + 1)):
        found = str(address(_at(spans, (begin + step) % many)))
        if found not in taken:
            return found
    return None


def _at(spans: Iterable[Span], place: int) -> int:
    for first, last in spans:
        if place <= last - first:
            return first + place
        place -= last - first + 1
    raise IndexError(place)


@functools.lru_cache(maxsize=4 * MOST_RANGES)  # asked about every address in the fleet
def _numbers(text: str) -> Tuple[int, int, int]:
    """The version of IP, the first and the last address of a range."""
    first, last = map(ipaddress.ip_address, text.split("-"))
    return first.version, int(first), int(last)


def _span(text: str) -> Span:
    _version, first, last = _numbers(text)
    return first, last


def _merged(spans: Iterable[Span]) -> List[Span]:
    found: List[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def _without(span: Span, taken: Span) -> List[Span]:
    parts = [(span[0], min(span[1], taken[0] - 1)), (max(span[0], taken[1] + 1), span[1])]
    return [part for part in parts if part[0] <= part[1]]
