# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses of an instance whose record comes back: another may have been given them while its host was silent or its
copy was set aside, since no run saw then that it has them."""

from __future__ import annotations

from typing import Sequence

from ..model import address_clash, copy_hints
from .fleet import Fleet


def check(fleet: Fleet, name: str, uuid: str, host: str) -> None:
    """Raise AddressTaken if another instance or guest has a MAC address or a fixed address of the instance on ``host``."""
    told = (told for told in fleet.documents[host]["instances"] if told["uuid"] == uuid)
    check_addresses(fleet, name, uuid, host, [entry for each in told for entry in each.get("nics") or ()])


def check_addresses(fleet: Fleet, name: str, uuid: str, host: str, own: Sequence[str]) -> None:
    """As ``check``, of a copy on ``host`` that has these addresses, as model/nics.py writes them."""
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
