# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bridges, networks and filters that this host has for NICs: for its facts, and checked again before a build or a move."""

from __future__ import annotations

import contextlib
import os
import shutil

from ...model.nics import of_nic
from ...model.safe_text import is_safe
from ...model.unknown_names import NetworkNotFound
from ..connection import has_no_driver, require_libvirt
from ..run import PATH, run
from . import packet_filter

SYS_NET = "/sys/class/net"
OVS = "ovs-vsctl"
OVS_SOCKET = "/var/run/openvswitch/db.sock"
VLAN_ON_BRIDGES = 11000000


def available(connection, warnings, sys_net=SYS_NET):
    """Return {bridges, bridge_links, networks, network_filters, packet_filters}: bridges and active libvirt networks for
    NICs, filters except those of guests, and by what guests' packets can be filtered.

    What cannot be read is left out and named in ``warnings``: no answer does not mean that there is none.
    """
    library = require_libvirt()
    asked = {
        "bridges": lambda: _bridges(sys_net),
        "ovs_bridges": _ovs_bridges,
        "vlan_bridges": lambda: [name for name in _bridges(sys_net) if _keeps_vlans_apart(connection, name, sys_net)],
        "networks": lambda: _names(connection.listAllNetworks, library.VIR_CONNECT_LIST_NETWORKS_ACTIVE),
        "network_filters": lambda: [
            name for name in _names(connection.listAllNWFilters, 0) if not packet_filter.NAME.match(name)
        ],
        "packet_filters": lambda: packet_filter.possible(connection),
    }
    found = {}
    for key, ask in asked.items():
        try:
            found[key] = sorted(name for name in ask() if is_safe(name, 255))
        except (library.libvirtError, OSError, NetworkNotFound) as error:
            warnings.append("%s cannot be listed: %s" % (key.replace("_", " "), error))
    return {**found, "bridge_links": _links(sys_net, found.get("bridges", ()))}


def _names(list_all, flags):
    """Return the names, or none if this libvirt lacks such objects."""
    library = require_libvirt()
    try:
        return [entry.name() for entry in list_all(flags)]
    except library.libvirtError as error:
        if has_no_driver(error):
            return []
        raise


def _bridges(sys_net):
    return [name for name in os.listdir(sys_net) if _is_bridge(name, sys_net)]


def _is_bridge(name, sys_net):
    return os.path.isdir(os.path.join(sys_net, name, "bridge"))


def _links(sys_net, bridges):
    """Return {bridge: {mtu, uplink}}, without those that were removed meanwhile. ``uplink``: whether a port is a network card,
    or stands on one, such as a bond or a VLAN; a guest's tap does not."""
    found = {}
    for name in bridges:
        with contextlib.suppress(OSError, ValueError):
            with open(os.path.join(sys_net, name, "mtu"), encoding="ascii") as file:
                mtu = int(file.read(16))
            ports = os.listdir(os.path.join(sys_net, name, "brif"))
            found[name] = {"mtu": mtu, "uplink": any(_leads_out(os.path.join(sys_net, port)) for port in ports)}
    return found


def _leads_out(port):
    return any(entry == "device" or entry.startswith("lower_") for entry in os.listdir(port))


def _keeps_vlans_apart(connection, name, sys_net):
    """Whether ports get their VLAN: on plain bridges since libvirt 11.0, if the bridge filters VLANs."""
    if connection.getLibVersion() < VLAN_ON_BRIDGES:
        return False
    with open(os.path.join(sys_net, name, "bridge", "vlan_filtering"), encoding="ascii") as file:
        return file.read(8).strip() == "1"


def _ovs_bridges():
    """Return the bridges of Open vSwitch, none if it is not installed or was not started."""
    if shutil.which(OVS, path=PATH) is None or not os.path.exists(OVS_SOCKET):
        return []
    return run([OVS, "--timeout=10", "list-br"], timeout=15, error=NetworkNotFound).split()


def check(connection, nics, sys_net=SYS_NET):
    """Raise NetworkNotFound naming all that the NICs need and this host lacks."""
    lacking = _lacking(connection, nics, sys_net)
    if lacking:
        raise NetworkNotFound(
            "this host has no %s" % ", no ".join(lacking), retryable=True, field="networks", missing=lacking
        )


def check_start(connection, record, hint):
    """Raise NetworkNotFound with ``hint`` if the guest of the record could not start here: best before it is stopped."""
    lacking = _lacking(connection, record.spec.get("networks"), SYS_NET)
    if lacking:
        name = connection.getHostname()
        raise NetworkNotFound(
            "%s (%s) cannot start on %s, which has no %s" % (record.name, record.uuid, name, ", no ".join(lacking)),
            hint=hint,
            instance=record.name,
            host=name,
            missing=lacking,
        )


def _lacking(connection, nics, sys_net):
    has = {
        "bridges": lambda name: _is_bridge(name, sys_net),
        "ovs_bridges": lambda name: name in _ovs_bridges(),
        "vlan_bridges": lambda name: _is_bridge(name, sys_net) and _keeps_vlans_apart(connection, name, sys_net),
        "networks": lambda name: _is_there(lambda: connection.networkLookupByName(name).isActive()),
        "network_filters": lambda name: _is_there(lambda: connection.nwfilterLookupByName(name)),
        "packet_filters": lambda name: name in packet_filter.possible(connection),
    }
    needs = dict.fromkeys(need for nic in nics or [] for need in of_nic(nic))
    return [text for key, name, text in needs if not has[key](name)]


def _is_there(look_up):
    """What ``look_up`` returns, or False if libvirt does not know such an object."""
    try:
        return look_up()
    except require_libvirt().libvirtError:
        return False
