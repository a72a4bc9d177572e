# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All checks before a live migration. Every problem is reported at once, and nothing is started.

The source describes the guest, the destination checks whether it can take it, the source judges. Nova: the checks of
check_can_live_migrate_destination and _source, and those that libvirt would only make half way.
"""

from __future__ import annotations

import os
from xml.etree import ElementTree

from ...model import adopted, adopted_move, disk_hints, hints, host_hints, snapshot_hints, snapshots
from ...model.errors import BerthError, shortened
from ...model.guest_settings import GuestSettings
from .. import paths
from ..connection import connect, require_libvirt
from ..disk import differences, volume_files
from ..disk import disk as disks
from ..guest import arrival, domain_xml, network
from ..host import as_qemu, certificates
from . import transfer

# Binds a running guest with NUMA cells or pinned CPUs to those that its claim set aside on another host.
REPLACED = ("vcpupin", "emulatorpin", "vcpusched")


def cells_of(resources):
    """Return the host's cells that a claim set aside, in the order of the guest's."""
    return ((resources or {}).get("numa_topology") or {}).get("cells") or []


def cell_problems(here, there):
    """Yield differences between the source's and the destination's claim that a guest cannot change while it runs."""
    old, new = cells_of(here), cells_of(there)
    if len(old) != len(new):
        yield "the guest has %d NUMA cells, and the destination set %d aside" % (len(old), len(new))
    elif [cell.get("pagesize") for cell in old] != [cell.get("pagesize") for cell in new]:
        yield "the guest's memory is in pages of %s KiB, and the destination set pages of %s KiB aside" % (
            _sizes(old),
            _sizes(new),
        )


def _sizes(cells):
    return ", ".join(str(cell.get("pagesize")) for cell in cells)


def bound_to_cells(text, spec, cells):
    """Return the running guest's definition, bound to other cells and CPUs. Other people's tuning stays."""
    root = ElementTree.fromstring(text)
    others = [part for part in root.iterfind("cputune/*") if part.tag not in REPLACED]
    for part in root.findall("cputune") + root.findall("numatune"):
        root.remove(part)
    domain_xml.pinning(root, cells, GuestSettings.of(spec).realtime_cpus(spec["flavor"]["vcpus"]) or set())
    if others:
        tune = root.find("cputune")
        (ElementTree.SubElement(root, "cputune") if tune is None else tune).extend(others)
    return ElementTree.tostring(root, encoding="unicode")


OPEN_TIMEOUT = 20  # s


def remote_uri(address, tls):
    return "qemu+%s://%s/system" % ("tls" if tls else "tcp", bracketed(address))


def bracketed(address):
    return "[%s]" % address if ":" in address else address


# ---- the source describes the guest ----------------------------------------------------------------------------------


def describe(connection, found, files):
    """Return {cpu (XML), host_cpu (XML, if the guest has it), arch, machine, virt_type, qemu, bytes (on disk)}."""
    library = require_libvirt()
    root = ElementTree.fromstring(found.XMLDesc(library.VIR_DOMAIN_XML_MIGRATABLE))
    cpu, kind = root.find("cpu"), root.find("os/type")
    passed_through = cpu is not None and cpu.get("mode") == "host-passthrough"
    host_cpu = ElementTree.fromstring(connection.getCapabilities()).find("host/cpu") if passed_through else None
    return {
        "cpu": None if cpu is None or passed_through else ElementTree.tostring(cpu, encoding="unicode"),
        "host_cpu": None if host_cpu is None else ElementTree.tostring(host_cpu, encoding="unicode"),
        "arch": kind.get("arch"),
        "machine": kind.get("machine"),
        "virt_type": root.get("type"),
        "qemu": connection.getVersion(),
        "bytes": sum(os.stat(path).st_blocks * 512 for path in files),
    }


# ---- the destination checks ------------------------------------------------------------------------------------------


def look(connection, guest, nics, pool_path, shared, address):
    """Return the destination's verdict on the described guest.

    {problems, address, certificates (what is wrong with them), shared, pool_path}
    """
    checks = (
        lambda: _cpu(connection, guest),
        lambda: _machine(connection, guest),
        lambda: _version(connection, guest),
        lambda: network.check(connection, nics),
        lambda: arrival.check(connection, nics),
        lambda: None if shared else _space(pool_path, guest),
        lambda: " ".join(_closed(connection, directories=_ways(pool_path))),
    )
    return {
        "problems": [text for text in (_said(check) for check in checks) if text],
        "address": address,
        "certificates": _faults(connection),
        "shared": shared,
        "pool_path": pool_path,
    }


def _said(check):
    try:
        return check()
    except BerthError as error:
        return "the destination says: %s" % error.message


def _faults(connection):
    """Return what keeps QEMU from TLS on this host, as sentences: its certificates, or who may read them."""
    return certificates.faults() or _closed(connection, files=as_qemu.certificates())


def _closed(connection, files=(), directories=()):
    """Return what its user cannot read or enter. QEMU would only find it when the guest is on its way."""
    who = as_qemu.user(connection.getCapabilities())
    hint = host_hints.prepare_host(os.uname().nodename)
    try:
        return ["%s. %s" % (as_qemu.told(who, path), hint) for path in as_qemu.closed(who, files, directories)]
    except BerthError as error:
        return [error.message]


def _ways(pool_path):
    """Return the directory that has the disks, or the pool where there are none yet."""
    below = os.path.join(pool_path, "instances")
    return [below if os.path.isdir(below) else pool_path]


def _cpu(connection, guest):
    """Compare the guest's CPU, or the host's if the guest has that, as in Nova's _compare_cpu."""
    library = require_libvirt()
    try:
        if guest["host_cpu"]:
            fits = connection.compareCPU(guest["host_cpu"], library.VIR_CONNECT_COMPARE_CPU_FAIL_INCOMPATIBLE)
        elif guest["cpu"]:
            fits = connection.compareHypervisorCPU(
                None,
                guest["arch"],
                None,
                guest["virt_type"],
                guest["cpu"],
                library.VIR_CONNECT_COMPARE_CPU_FAIL_INCOMPATIBLE,
            )
        else:
            return None
    except library.libvirtError as error:
        if error.get_error_code() in (library.VIR_ERR_NO_SUPPORT, library.VIR_ERR_CONFIG_UNSUPPORTED):
            return None  # cannot be compared here: QEMU itself checks the CPU when the guest arrives
        return "the destination's CPU lacks what the guest uses: %s" % error
    return None if fits != library.VIR_CPU_COMPARE_INCOMPATIBLE else "the destination's CPU lacks what the guest uses"


def _machine(connection, guest):
    library = require_libvirt()
    try:
        connection.getDomainCapabilities(None, guest["arch"], guest["machine"], guest["virt_type"], 0)
    except library.libvirtError as error:
        return "the destination cannot run a %s of type %s: %s" % (guest["virt_type"], guest["machine"], error)
    return None


def _version(connection, guest):
    """As Nova's DestinationHypervisorTooOld."""
    here = connection.getVersion()
    if here < guest["qemu"]:
        return "the destination's QEMU is older: %s, not %s" % (_dotted(here), _dotted(guest["qemu"]))
    return None


def _dotted(version):
    return "%d.%d.%d" % (version // 1000000, version // 1000 % 1000, version % 1000)


def _space(pool_path, guest):
    free = paths.free_bytes(pool_path)
    if free < guest["bytes"]:
        return "the destination's storage has %d MiB free, the disks take %d MiB" % (free >> 20, guest["bytes"] >> 20)
    return None


# ---- the source judges -----------------------------------------------------------------------------------------------


def judge(found, record, seen, tls, pool_path, there=None):
    """Return all problems as sentences. ``seen``: the destination's ``look``; ``there``: what its claim set aside."""
    problems = [*seen["problems"], *cell_problems(record.resources, there)]
    text = found.XMLDesc(0)
    problems += _guest_problems(found, record, text)
    problems += disk_problems(text, record, pool_path, seen["shared"])
    if seen["shared"] and seen["pool_path"] != pool_path:
        problems.append("the storage is shared, but is %s here and %s there" % (pool_path, seen["pool_path"]))
    faults = (_faults(found.connect()), "the source"), (seen["certificates"], "the destination")
    if tls:
        problems += ["no TLS on %s: %s" % (where, fault) for these, where in faults for fault in these]
    if not transfer.ADDRESS.match(str(seen["address"])):
        problems.append("the destination's address %r is not valid" % (seen["address"],))
    elif not (tls and any(these for these, _where in faults)):
        problems += _reach(seen["address"], tls)
    return problems


def _guest_problems(found, record, text):
    devices = ElementTree.fromstring(text).find("devices/hostdev") is not None
    if devices or record.resources.get("pci_devices") or record.resources.get("vgpus"):
        yield "the guest holds devices of the host"
    noted = found.snapshotListNames(0)
    if noted:
        hint = disk_hints.forget_snapshots(found.connect().getHostname(), record.uuid, noted)
        yield (
            "libvirt migrates no guest of which it has noted snapshots, even if their layers are merged by now. %s"
            % hint
        )


def disk_problems(text, record, pool_path, shared):
    """Return which of the running guest's disks (``text``: its definition) cannot be migrated, as sentences."""
    left = [] if shared else _snapshots_left(record)
    return [*_not_its_own(text, record, pool_path), *_left_behind(text, record, pool_path, shared), *left]


def _snapshots_left(record):
    names = [each["name"] for each in snapshots.of(record.spec)]
    if names:
        yield "QEMU copies what the guest sees, and would leave its snapshots behind: %s. %s" % (
            shortened(names),
            snapshot_hints.move_cold(record.name, names[0]),
        )


def _not_its_own(text, record, pool_path):
    own = {os.path.dirname(path) for path in volume_files.planned(pool_path, record.spec)}
    own.add(paths.instance(pool_path, record.uuid))
    for disk in ElementTree.fromstring(text).iterfind("devices/disk[source]"):
        source, is_drive = disk.find("source"), disk.get("device") in adopted_move.DRIVES
        if not set(source.attrib) - {"index"}:
            continue  # a drive without a medium
        path = source.get("file") or source.get("dev") or "no file"
        if os.path.dirname(path) not in own and path not in adopted.files(record.spec):
            said = "the guest has a disk that is not the instance's own: %s" % path
            if is_drive:
                said += ". Eject it with " + differences.detach(record.uuid, disk.find("target").get("dev"), True, True)
            yield said


def _left_behind(text, record, pool_path, shared):
    """libvirt does not copy a disk or volume that was detached by hand, or is read-only: it would arrive empty."""
    root = ElementTree.fromstring(text)
    has = [disk for disk in root.iterfind("devices/disk[source]") if shared or disk.find("readonly") is None]
    used = {disk.find("source").get("file") for disk in has}
    wanted = [paths.instance(pool_path, record.uuid, disk.file) for disk in disks.plan(record.spec)]
    for path in wanted + ([] if shared else list(volume_files.planned(pool_path, record.spec))):
        if path not in used:
            yield "the running guest does not have its disk %s, or may not write to it: it would arrive empty. %s" % (
                path,
                hints.take_all_disks(record.name),
            )


def _reach(address, tls):
    uri = remote_uri(address, tls)
    try:
        connect(timeout=OPEN_TIMEOUT, uri=uri).close()
    except BerthError as error:
        return ["the source does not reach the destination's libvirt: %s" % error.message]
    return []
