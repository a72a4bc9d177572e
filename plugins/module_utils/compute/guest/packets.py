# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the packets of running guests go as their records say, by what the kernel has; and how that is repaired while the
guest runs: its tap goes back to its bridge, and libvirt makes the rules of its filter again."""

from __future__ import annotations

import contextlib
import json
from xml.etree import ElementTree

from ...model.errors import BerthError
from ...model.lifecycle import OWN
from ..run import run
from . import domain, live_differences, packet_filter, packet_path, packet_path_read
from .packet_path_read import TIMEOUT, PacketRulesNotRead

IN_KERNEL = "kernel"  # the key of domain_differs
MENDED = (packet_path.UNPLUGGED, packet_path.OPEN)  # what others drop is theirs to change
MOST = 20


def differing(guests):
    """Return ({uuid: [{nic, code, said}]} of what is wrong, [what could not be read]). ``guests``: [(record, the XML text of
    the running guest)], all of a host at once: the kernel is asked once."""
    nics = {}
    for record, live in guests:
        with contextlib.suppress(*live_differences.DAMAGED):  # a damaged record, which is reported elsewhere
            nics[record.uuid] = packet_path.of_guest(live, record)
    try:
        seen = packet_path_read.look([nic for each in nics.values() for nic in each])
    except (PacketRulesNotRead, ValueError) as error:
        return {}, ["whether packets of guests go as their records say is not known: %s" % error]
    found = {
        uuid: [_wrong(nic, *wrong) for nic in each for wrong in packet_path.examine(nic, seen)][:MOST]
        for uuid, each in nics.items()
    }
    return {uuid: wrong for uuid, wrong in found.items() if wrong}, seen.unread


def _wrong(nic, code, text):
    return {"nic": _name(nic), "code": code, "said": text}


def _name(nic):
    return "network interface %s" % nic.mac


def _is_mended(wrong):
    return wrong["code"] in MENDED


def of(connection, record):
    """Return the differences of one guest; [] if it does not run here."""
    guest = domain.find(connection, record.uuid) if record.role == OWN else None
    live = domain.definitions(guest)[0] if guest is not None else None
    return differing([(record, live)])[0].get(record.uuid, []) if live else []


def would_mend(connection, record):
    return any(map(_is_mended, of(connection, record)))


def mend(connection, record):
    """Repair what can be. Return ([the differences that there were], [those that are left])."""
    wrong = of(connection, record)
    if not any(map(_is_mended, wrong)):
        return wrong, wrong
    guest = domain.find(connection, record.uuid)
    live = domain.definitions(guest)[0]
    codes = {each["code"] for each in wrong}
    if packet_path.UNPLUGGED in codes:
        names = {each["nic"] for each in wrong if each["code"] == packet_path.UNPLUGGED}
        for nic in packet_path.of_guest(live, record):
            if _name(nic) in names:
                _plug(guest, live, nic)
    if packet_path.OPEN in codes:
        packet_filter.enforce(connection, record)
    return wrong, of(connection, record)


def _plug(guest, live, nic):
    """Do what libvirt does at the start. What fails is still there when it is looked at again."""
    if nic.kind == "openvswitch":
        plug, moved = _on_switch(guest, live, nic)
        _try(plug) or _try(moved)
    elif nic.kind == "bridge":
        _try(["ip", "link", "set", "dev", nic.tap, "master", nic.bridge])
        if not nic.isolated:
            _try(["ip", "link", "set", "dev", nic.tap, "type", "bridge_slave", "isolated", "off"])
        if nic.vlan:
            of_tap = ["dev", nic.tap, "vid"]
            _try(["bridge", "vlan", "del", *of_tap, "1-4094"])  # a new port is in the bridge's own VLAN
            _try(["bridge", "vlan", "add", *of_tap, str(nic.vlan), "pvid", "untagged"])
    _try(["ip", "link", "set", "dev", nic.tap, "up"])
    if not nic.linked:
        with contextlib.suppress(BerthError):
            domain.update(guest, _linked(live, nic.mac))


def _try(call):
    try:
        run(call, timeout=2 * TIMEOUT, error=PacketRulesNotRead)
        return True
    except BerthError:
        return False


def _on_switch(guest, live, nic):
    """Put the tap on its switch with its tag, as libvirt does at the start. An added port that is there keeps another tag, and
    ovs-vsctl refuses one that is on another bridge: then it goes from there in the same transaction."""
    port = _element(live, nic.mac).find("virtualport/parameters")
    said = {"attached-mac": nic.mac, "vm-id": guest.UUIDString(), "iface-status": "active"}
    said.update({"iface-id": port.get("interfaceid")} if port is not None and port.get("interfaceid") else {})
    tag = ["set", "port", nic.tap, "tag=%d" % nic.vlan] if nic.vlan else ["clear", "port", nic.tap, "tag"]
    named = ["external-ids:%s=%s" % (key, json.dumps(value)) for key, value in said.items()]
    call = ["ovs-vsctl", "--timeout=%d" % TIMEOUT, "--"]
    plug = ["--may-exist", "add-port", nic.bridge, nic.tap, "--", *tag, "--", "set", "interface", nic.tap, *named]
    return [[*call, *plug], [*call, "--if-exists", "del-port", nic.tap, "--", *plug]]


def _element(live, mac):
    interfaces = ElementTree.fromstring(live).iterfind("devices/interface[mac]")
    return next(each for each in interfaces if each.find("mac").get("address") == mac)


def _linked(live, mac):
    element = _element(live, mac)
    element.find("link").set("state", "up")
    return ElementTree.tostring(element, encoding="unicode")
