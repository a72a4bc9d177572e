# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what this host's kernel has for the NICs of its guests, in one pass: their taps, and its tables of packet rules.
Nothing is changed and nothing waits for long."""

from __future__ import annotations

import contextlib
import json
import shutil

from ...model.errors import BerthError
from ..run import PATH, run
from . import nft_ruleset, packet_path, rule_tables
from .network import OVS
from .packet_filter import BRIDGED, reads_one

TIMEOUT = 5  # s, for each program
LEGACY = {"iptables": "/proc/net/ip_tables_names", "ip6tables": "/proc/net/ip6_tables_names"}
# Distributions with one of ebtables' two backends alone may call its program by its own name only.
EBTABLES = ("ebtables-save", "ebtables-nft-save", "ebtables-legacy-save")
DAMAGED = (AttributeError, LookupError, TypeError, ValueError)  # what a program may print in another form
FORWARDING = ("forwarding", "listening", "learning")  # soon, for the latter


class PacketRulesNotRead(BerthError):
    """A program that lists the kernel's packet rules or ports failed on this host. Nothing was changed."""


def look(nics):
    """Return packet_path.Seen for the NICs of a host. Raise PacketRulesNotRead if its network devices cannot be listed."""
    seen = packet_path.Seen()
    if not nics:
        return seen
    links = _links()
    seen.ports = {nic.tap: _port(nic, links, seen.unread) for nic in nics if nic.tap in links}
    bridges = dict.fromkeys(nic.bridge for nic in nics if nic.kind == "bridge")
    seen.down = [name for name in bridges if name in links and "UP" not in (links[name].get("flags") or ())]
    ports = [name for name, link in links.items() if link.get("linkinfo", {}).get("info_kind") != "tun"]
    seen.uplinks = {name: [port for port in ports if links[port].get("master") == name] for name in bridges}
    for program in packet_path.FAMILIES:
        everywhere, own = reads_one(BRIDGED % program), "nf_call_" + program
        seen.called[program] = [name for name in bridges if everywhere or _data(links, name, "info_data").get(own)]
    for program in ("ebtables", *packet_path.FAMILIES):
        if bridges and (program == "ebtables" or seen.called[program]):
            with _told(seen.unread, program):
                seen.tables[program] = _tables(program)
    if bridges and shutil.which("nft", path=PATH):
        with _told(seen.unread, "nft"):
            listed = _nft()
            seen.nft = nft_ruleset.taps(listed)
            for program, backends in nft_ruleset.backends(listed).items():
                seen.tables.get(program, []).extend(backends)
    return seen


@contextlib.contextmanager
def _told(unread, what):
    try:
        yield
    except (BerthError, OSError, *DAMAGED) as error:
        unread.append("what %s does with packets of guests is not known: %s" % (what, error))


# ---- taps ------------------------------------------------------------------------------------------------------------


def _links():
    """Return {name: what the kernel says of it} of all network devices."""
    listed = json.loads(_run("ip", "-details", "-json", "link", "show"))
    return {link["ifname"]: link for link in listed if link.get("ifname")}


def _data(links, name, part):
    return links.get(name, {}).get("linkinfo", {}).get(part) or {}


def _port(nic, links, unread):
    """Return what packet_path.Seen says of a port."""
    link, as_port = links[nic.tap], _data(links, nic.tap, "info_slave_data")
    flags = link.get("flags") or ()
    port = {
        "up": "UP" in flags,
        "carrier": "NO-CARRIER" not in flags,
        "bridge": link.get("link" if nic.kind == "direct" else "master"),
        "stopped": as_port.get("state") if as_port.get("state") not in FORWARDING else None,
        "isolated": bool(as_port.get("isolated")),
        "vlans": None,
    }
    if nic.kind == "openvswitch":
        port["bridge"] = nic.bridge  # the kernel names its own part of the switch
        with _told(unread, OVS):
            port.update(_on_switch(nic))
    elif nic.kind == "bridge" and nic.vlan:
        with _told(unread, "bridge"):
            port["vlans"] = _vlans(nic.tap)
    return port


def _vlans(tap):
    """Return {VLAN of a port of a bridge: whether packets without a tag are in it, both ways}."""
    listed = json.loads(_run("bridge", "-json", "vlan", "show", "dev", tap) or "[]")
    entries = [entry for port in listed for entry in port.get("vlans") or ()]
    return {entry["vlan"]: {"PVID", "Egress Untagged"} <= set(entry.get("flags") or ()) for entry in entries}


def _on_switch(nic):
    """Return {bridge, vlans} of a port of Open vSwitch. The switch itself says where it is: the kernel does not know."""
    call = (OVS, "--timeout=%d" % TIMEOUT)
    for bridge in (nic.bridge, *_run(*call, "list-br").split()):
        if nic.tap in _run(*call, "list-ports", bridge).split():
            tag = _run(*call, "get", "port", nic.tap, "tag").strip()
            return {"bridge": bridge, "vlans": {int(tag): True} if tag.isdigit() else {}}
    return {"bridge": None}


def _run(*arguments):
    return run(list(arguments), timeout=TIMEOUT, error=PacketRulesNotRead)


# ---- rules -----------------------------------------------------------------------------------------------------------


def _tables(program):
    """Return the tables of each backend that the kernel asks: a rule of the older one decides beside those of nftables."""
    names = EBTABLES if program == "ebtables" else (program + "-save",)
    name = next((name for name in names if shutil.which(name, path=PATH)), names[0])
    text = _run(name)
    found = [rule_tables.parse(text)]
    if program == "ebtables":
        return found
    is_nft = "nf_tables" in text or not text.strip()
    other = "%s-%s-save" % (program, "legacy" if is_nft else "nft")
    if shutil.which(other, path=PATH) and (not is_nft or _is_filled(LEGACY[program])):
        found.append(rule_tables.parse(_run(other)))
    return found


def _is_filled(path):
    try:
        with open(path, encoding="ascii") as stream:
            return bool(stream.read(64).strip())
    except OSError:
        return False


def _nft():
    return json.loads(_run("nft", "-j", "list", "ruleset"))["nftables"]
