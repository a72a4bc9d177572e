# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gives a running guest the limits of its record, without a restart: those that differ, at once."""

from __future__ import annotations

from xml.etree import ElementTree

from ...model import flavor_limits
from . import domain, live_differences

# What libvirt takes for no limit of a running guest.
NO_CPU = {"shares": flavor_limits.DEFAULTS["shares"], "period": flavor_limits.DEFAULTS["period"], "quota": -1}
CALLED = {"shares": "cpu_shares", "period": "vcpu_period", "quota": "vcpu_quota"}


def differing(record, text):
    """Return the parts of the running guest's definition whose limits are not those of the record."""
    found = live_differences.between(record, text, None).get("now", ())
    return [part for part, _wanted, _has in found if part.startswith(live_differences.LIMITS)]


def bring(guest, record):
    """Return whether any had to change."""
    text = domain.definitions(guest)[0]
    parts = differing(record, text) if text else []
    specs = record.spec["flavor"].get("extra_specs") or {}
    if live_differences.CPU_LIMITS in parts:
        wanted = {**NO_CPU, **flavor_limits.of_cpu(specs)}
        domain.limit_cpus(guest, {CALLED[name]: number for name, number in wanted.items()})
    if live_differences.DISK_LIMITS in parts:
        wanted = {**dict.fromkeys(flavor_limits.DISK, 0), **flavor_limits.of_disk(specs)}
        for disk in live_differences.own_disks(ElementTree.fromstring(text)):
            domain.limit_disk(guest, disk.find("target").get("dev"), wanted)
    wanted = flavor_limits.of_nic(specs)
    for nic in record.spec.get("networks") or ():
        if live_differences.NIC_LIMITS % nic["mac"] in parts and domain.nic_of(text, nic["mac"]) is not None:
            domain.limit_nic(guest, nic["mac"], _of_nic(wanted))
    return bool(parts)


def _of_nic(wanted):
    """An average of 0 takes the limit away, with its peak and burst."""
    return {
        "%s.%s" % (way, part): wanted.get(way, {}).get(part, 0)
        for way in flavor_limits.DIRECTIONS
        for part in flavor_limits.OF_NIC
    }
