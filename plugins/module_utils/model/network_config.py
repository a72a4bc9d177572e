# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""cloud-init's network-config, for every renderer of cloud-init 19.4 and later.

Up to 22.1 cloud-init takes the name in the document for that of the device, so each NIC gets one: eth0, eth1, ... Version 1
is the one whose default routes all renderers write: those of version 2 crash sysconfig, or become ::/64. Where no NIC has
an address of its own it is version 2, as netplan gets name servers beside DHCP from that alone.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from .errors import InvalidInput
from .messages import Document
from .nics import Nic, by_version, dhcp_versions

# Of a default route that DHCP gives to another NIC than that of the guest's default route, whose metric is at most 100.
OTHER_METRIC = 200
LONGEST = 65535  # bytes of a user's own


def network_config(nics: Optional[Sequence[Nic]]) -> Optional[Document]:
    """Return the document for the NICs of a request with all their addresses; None without NICs."""
    if not nics:
        return None
    if not any(nic["address"] for nic in nics):
        told = [at for at, nic in enumerate(nics) if nic.get("default_route")]
        first = [at for at, nic in enumerate(nics) if nic.get("default_route") is not False][:1]
        by_name = {"eth%d" % at: _ethernet(at, nic, at in (told or first)) for at, nic in enumerate(nics)}
        return {"version": 2, "ethernets": by_name}
    defaults = _default_routes(nics)
    config = [_physical(at, nic, defaults) for at, nic in enumerate(nics)]
    static = next(subnet for device in config for subnet in device["subnets"] if subnet["type"] == "static")
    # Renderers drop those of a subnet with DHCP, and a guest asks all its name servers, whichever NIC has them.
    servers = [server for nic in nics if not nic["address"] for server in nic["nameservers"]]
    if servers:
        static["dns_nameservers"] = list(dict.fromkeys([*static.get("dns_nameservers", []), *servers]))
    return {"version": 1, "config": config}


def _default_routes(nics: Sequence[Nic]) -> List[Tuple[int, int]]:
    """Return (NIC, IP version) of the gateways that are default routes: of each IP version those of NICs that say so, or else the first."""
    chosen = []
    for version in (4, 6):
        of_version = {at: by_version(nic)[version] for at, nic in enumerate(nics) if version in by_version(nic)}
        told = any(nic.get("default_route") and version in dhcp_versions(nic) for nic in nics)
        told = told or any(nics[at].get("default_route") for at in of_version)
        may = [at for at, pair in of_version.items() if pair[1] and nics[at].get("default_route") is not False]
        may = [at for at in may if nics[at].get("default_route")] if told else may[:1]
        chosen += [(at, version) for at in may]
    return chosen


def _physical(at: int, nic: Nic, defaults: Sequence[Tuple[int, int]]) -> Document:
    device: Document = {"type": "physical", "name": "eth%d" % at, "mac_address": nic["mac"]}
    if nic["mtu"]:
        device["mtu"] = nic["mtu"]
    subnets: List[Dict[str, Any]] = [{"type": "dhcp%d" % version} for version in dhcp_versions(nic)]
    fixed: List[Dict[str, Any]] = []
    for version, (address, gateway) in by_version(nic).items():
        fixed.append(
            {"type": "static", "address": address, **({"gateway": gateway} if (at, version) in defaults else {})}
        )
    if fixed and nic["nameservers"]:
        fixed[0]["dns_nameservers"] = list(nic["nameservers"])
    return {**device, "subnets": fixed + subnets}


def _ethernet(at: int, nic: Nic, is_default: bool) -> Document:
    ethernet: Document = {"match": {"macaddress": nic["mac"]}, "set-name": "eth%d" % at}
    if nic["mtu"]:
        ethernet["mtu"] = nic["mtu"]
    for version in dhcp_versions(nic):
        ethernet["dhcp%d" % version] = True
        if not is_default:
            ethernet["dhcp%d-overrides" % version] = {"route-metric": OTHER_METRIC}
    if nic["nameservers"]:
        ethernet["nameservers"] = {"addresses": list(nic["nameservers"])}
    return ethernet


class NetworkConfig:
    """A network-config of the user's own: what cloud-init of the guest's image reads."""

    rule = "a mapping with version: 1 and config, or version: 2, as cloud-init's network-config has it"

    def check(self, value: Any, field: str) -> Document:
        config = value.get("network", value) if isinstance(value, Mapping) else None
        if not isinstance(config, Mapping) or config.get("version") not in (1, 2):
            raise InvalidInput(field, value, self.rule)
        if config["version"] == 1 and not isinstance(config.get("config"), list):
            raise InvalidInput(field, value, self.rule)
        try:
            text = json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            raise InvalidInput(field, value, "texts, numbers, truth values, lists and mappings") from None
        if len(text) > LONGEST:
            raise InvalidInput(field, "%d bytes" % len(text), "at most %d bytes in JSON" % LONGEST)
        return dict(json.loads(text))
