# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plugs CPUs and memory into a running guest, and takes them out again. A guest that is started next has all of it from the
beginning. What is there already stays, so a killed run is finished by the next."""

from __future__ import annotations

import time
from xml.etree import ElementTree

from ...model import operation_hints
from ...model.errors import BerthError
from ..connection import require_libvirt
from ..errors import BuildFailed, GuestNotSupported
from . import domain

MIB = 1024  # KiB
LETS_GO = 30  # s in which a guest lets go of CPUs and memory
POLL = 0.5
DIMM = "<memory model='dimm'><target><size unit='KiB'>%d</size><node>0</node></target></memory>"


class GuestNotGrown(BerthError):
    """The running guest cannot get more CPUs or memory, such as one that was started before its flavor had ceilings. Its
    record and size are as before."""


def grow(guest, record):
    """Give the running guest the memory and the CPUs of the record's flavor."""
    flavor = record.spec["flavor"]
    try:
        missing = flavor["memory_mb"] * MIB - _memory_kib(_live(guest))
        if missing > 0:
            domain.attach(guest, DIMM % missing, require_libvirt().VIR_DOMAIN_AFFECT_LIVE)
        if _vcpus(_live(guest)) < flavor["vcpus"]:
            domain.set_vcpus(guest, flavor["vcpus"])
    except (BuildFailed, GuestNotSupported) as error:
        raise GuestNotGrown(
            "the running guest of %s cannot get %d vCPUs and %d MiB of memory: %s"
            % (record.name, flavor["vcpus"], flavor["memory_mb"], error),
            hint=operation_hints.stop_and_resize(record.name),
        )


def shrink(guest, record):
    """Take from the running guest what the record's flavor does not have. Return whether it let go of all of it."""
    flavor, ends = record.spec["flavor"], time.monotonic() + LETS_GO
    return _takes_cpus(guest, flavor["vcpus"], ends) and _takes_memory(guest, flavor["memory_mb"] * MIB, ends)


def _takes_cpus(guest, wanted, ends):
    """QEMU without KVM crashes some time after it has taken a CPU out (7.2), so no emulated guest is asked."""
    if _vcpus(_live(guest)) > wanted and _live(guest).get("type") != "kvm":
        return False
    while _vcpus(_live(guest)) > wanted:
        try:
            domain.set_vcpus(guest, wanted)  # libvirt waits a few seconds for each
        except BuildFailed:
            if time.monotonic() > ends or not _can_go(_live(guest), wanted):
                return False
            time.sleep(POLL)
    return True


def _can_go(root, wanted):
    """Whether so many CPUs were plugged in that the others are no more than ``wanted``. What it was started with stays."""
    fixed = [
        cpu for cpu in root.iterfind("vcpus/vcpu") if (cpu.get("enabled"), cpu.get("hotpluggable")) == ("yes", "no")
    ]
    return root.find("vcpus") is not None and len(fixed) <= wanted


def _takes_memory(guest, wanted, ends):
    """The latest comes out first."""
    too_much = _memory_kib(_live(guest)) - wanted
    for dimm in reversed(list(_live(guest).iterfind("devices/memory[@model='dimm']"))):
        size = int(dimm.findtext("target/size"))
        if size <= too_much and _lets_go_of(guest, dimm.find("alias").get("name"), ends):
            too_much -= size
    return too_much <= 0


def _lets_go_of(guest, alias, ends):
    path = "devices/memory/alias[@name='%s']/.." % alias
    try:
        return domain.detach(
            guest,
            lambda text: ElementTree.fromstring(text).find(path) if text else None,
            "memory %s" % alias,
            ends - time.monotonic(),
        )
    except BuildFailed:  # the guest refuses
        return False


def _live(guest):
    return ElementTree.fromstring(domain.definitions(guest)[0] or "<domain/>")


def _vcpus(root):
    vcpu = root.find("vcpu")
    return 0 if vcpu is None else int(vcpu.get("current") or vcpu.text)


def _memory_kib(root):
    return int(root.findtext("memory") or 0)
