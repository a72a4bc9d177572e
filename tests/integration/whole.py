# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab made whole and empty, whatever a test left."""

from __future__ import annotations

from labkit import network
from labkit.commands import hosts_of
from labkit.lab import Lab

# Makes a host whole and removes what is left of guests, whatever the product thinks of it.
WIPE = """
pkill -CONT qemu-system
service libvirtd status >/dev/null || service libvirtd restart
for domain in $(virsh -q list --all --uuid); do
  virsh -q destroy "$domain" >/dev/null 2>&1
  virsh -q undefine "$domain" --nvram --managed-save --snapshots-metadata --checkpoints-metadata >/dev/null 2>&1
done
for filter in $(virsh -q nwfilter-list | grep -o ' berth-.*'); do virsh -q nwfilter-undefine "$filter" >/dev/null; done
rm -rf /var/lib/berth/instances/* /var/lib/berth/deleted /run/berth/permits/*
rm -rf /var/lib/berth/volumes /var/lib/libvirt/berth/volumes
rm -rf /var/lib/libvirt/berth/instances/* /var/log/libvirt/qemu/*-console.log*
rm -f /var/lib/berth/drained.json
rm -f /var/lib/berth/failures.json /var/lib/berth/failed_builds.json /var/lib/berth/tombstones.json /var/lib/berth/whereabouts.*
"""


def make_whole(lab):
    """All hosts up and connected, libvirtd running, no guests."""
    for host in hosts_of(Lab(lab.name)):
        if not host.pid:
            host.boot()
            host.wait_ready()
        network.set_links(host, "up")
        host.run("timeout", "60", "sh", "-c", WIPE)
