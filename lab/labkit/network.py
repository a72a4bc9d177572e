# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's two networks on this machine: bridges, each host's pair of links, addresses for guests by DHCP."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess

from .run import command_line_of, is_alive, read_pid, run, wait_for

ADDRESS_FILE = "dnsmasq.pid"


def _exists(link):
    return os.path.exists("/sys/class/net/" + link)


def networks_up(lab):
    """Both bridges, with this machine (the controller) as .1 on each."""
    for bridge, network in ((lab.management_bridge, lab.management), (lab.guest_bridge, lab.guests)):
        if not _exists(bridge):
            run("ip", "link", "add", bridge, "type", "bridge")
            run("ip", "addr", "add", network + ".1/24", "dev", bridge)
        run("ip", "link", "set", bridge, "up")
    _dhcp_up(lab)


def _dhcp_pid(lab):
    pid = read_pid(lab.state / ADDRESS_FILE)
    return pid if pid and "--pid-file=%s" % (lab.state / ADDRESS_FILE) in command_line_of(pid) else 0


def _dhcp_up(lab):
    if _dhcp_pid(lab):
        return
    options = [
        "--conf-file=/dev/null",
        "--port=0",
        "--no-ping",
        "--dhcp-authoritative",
        "--leasefile-ro",
        "--user=root",
        "--interface=" + lab.guest_bridge,
        "--except-interface=lo",
        "--bind-interfaces",
        "--dhcp-range=%s.100,%s.199,12h" % (lab.guests, lab.guests),
        "--pid-file=%s" % (lab.state / ADDRESS_FILE),
        "--log-facility=%s" % (lab.state / "dnsmasq.log"),
    ]
    run("dnsmasq", *options, stdin=subprocess.DEVNULL)


def networks_down(lab):
    pid = _dhcp_pid(lab)
    if pid:
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: not is_alive(pid), 5, "end of dnsmasq")
    for bridge in (lab.management_bridge, lab.guest_bridge):
        if _exists(bridge):
            run("ip", "link", "del", bridge)


def plug_in(lab, host, pid):
    """Give the network namespace of a process its eth0 (management) and eth1 (guests); they go with it."""
    for link, inside, bridge in (
        (host.link("m"), "eth0", lab.management_bridge),
        (host.link("g"), "eth1", lab.guest_bridge),
    ):
        if _exists(link):  # of a host that has just died: the kernel takes such links away a little later
            run("ip", "link", "del", link, check=False)
        card = ["name", inside, "address", _mac(host, inside)]
        run("ip", "link", "add", link, "type", "veth", "peer", *card, "netns", pid)
        run("ip", "link", "set", link, "master", bridge, "up")


def _mac(host, inside):
    """A host that was booted anew has the network cards it had: others find it at once."""
    digest = hashlib.sha256(("%s %s" % (host.uuid, inside)).encode()).hexdigest()
    return ":".join(["02", *(digest[at : at + 2] for at in range(0, 10, 2))])


def set_links(host, state):
    """Take both links of a host 'down' (cut) or 'up' (heal)."""
    for kind in "mg":
        if _exists(host.link(kind)):
            run("ip", "link", "set", host.link(kind), state)


def unplug(host):
    for kind in "mg":
        if _exists(host.link(kind)):
            run("ip", "link", "del", host.link(kind), check=False)
