# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which guests of this host are no instances, what they have, and what is in the way of making instances of them. Reads only.

What is in the way has a code and a text with what to do: everything that a record could not keep, or whose data may be
elsewhere than in the files of the disks.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence
from xml.etree import ElementTree

from ...model import adopted
from ...model.errors import BerthError
from ...model.safe_text import clean, is_safe, is_safe_block
from .. import paths
from ..connection import LibvirtUnavailable, require_libvirt
from ..disk import layers, virtual_size
from . import disk_users, domain, domains, nvram
from .terms import mark_of

MOST = 1000  # guests
MIB = 1024  # KiB
FORMATS = ("raw", "qcow2")
# The namespaces with which other tools mark their guests: they would go on to change them.
MANAGERS = {
    "http://openstack.org/xmlns/libvirt/nova": "OpenStack Nova",
    "http://ovirt.org/vm": "oVirt",
    "http://kubevirt.io": "KubeVirt",
    "http://cloudstack.apache.org": "Apache CloudStack",
    "https://opennebula.org": "OpenNebula",
}
PINNING = ("cputune/vcpupin", "memoryBacking/hugepages", "numatune")
OF_DEFINITION = ("type", "source", "mac", "model", "virtualport", "mtu", "vlan", "nwfilter")  # of a NIC
# What an adopted instance has by being one, or what other checks of a move tell.
OF_INSTANCES = ("IsInstance", "IsSaved", "HasSnapshots")
DISK_MARKS = {
    "shareable": "is shared",
    "transient": "is transient",
    "encryption": "is encrypted",
    "mirror": "is being copied",
}


class GuestNotAdoptable(BerthError):
    """Something of the guest is in the way of making an instance of it, or of moving it; the message names all of it. Nothing was
    changed."""


class Reason(NamedTuple):
    """What is in the way: a code, and a text for people with what to do."""

    code: str
    said: str


class Guest(NamedTuple):
    """A guest that is no instance. ``disks``: [{target, path, format, size (bytes)}], ``networks``: NICs as a request has
    them."""

    uuid: str
    name: str
    state: str
    vcpus: int
    memory_mb: int
    definition: str
    disks: List[Dict[str, Any]]
    variables: Optional[str]
    networks: List[Dict[str, Any]]
    in_the_way: List[Reason]

    def shown(self):
        """For people and the controller."""
        return {
            "uuid": self.uuid,
            "name": clean(self.name, 200),
            "state": self.state,
            "vcpus": self.vcpus,
            "memory_mb": self.memory_mb,
            "disks": [
                {name: clean(part, 1000) if isinstance(part, str) else part for name, part in disk.items()}
                for disk in self.disks
            ],
            "in_the_way": [{"code": each.code, "said": clean(each.said, 500)} for each in self.in_the_way],
        }


def look(connection, own):
    """Return the guests whose uuids are not ``own``, by name."""
    found = domains.states(connection)
    users = disk_users.files_of_each(connection)
    others = sorted((guest.name(), uuid) for uuid, (guest, _state) in found.items() if uuid not in own)[:MOST]
    return [guest for guest in (of(connection, uuid, users) for _name, uuid in others) if guest]


def of(connection, uuid, users=None):
    """Return the Guest, or None if libvirt does not know it, or not any more."""
    library = require_libvirt()
    try:
        return _read(connection, uuid, users)
    except library.libvirtError as error:
        if error.get_error_code() == library.VIR_ERR_NO_DOMAIN:
            return None
        raise LibvirtUnavailable("libvirt gave no usable answer about guest %s: %s" % (uuid, error))


def _read(connection, uuid, users):
    guest = domain.find(connection, uuid)
    live, lasting = domain.definitions(guest) if guest is not None else (None, None)
    if not (live or lasting):
        return None
    root = ElementTree.fromstring(lasting or live)
    users = disk_users.files_of_each(connection) if users is None else users
    disks = [_disk(element) for element in _disks(root)]
    variables = _variables(root, live)
    reasons = list(_of_domain(guest, root, lasting))
    for disk in disks:
        reasons += _of_disk(disk, uuid, users)
    found = Guest(
        uuid,
        guest.name(),
        domain.state(connection, uuid) or "nostate",
        int(root.findtext("vcpu")),
        -(-int(root.findtext("memory")) // MIB),
        _lasting(root, variables),
        [{part: disk[part] for part in ("target", "path", "format", "size")} for disk in disks],
        variables,
        [_nic(element) for element in root.iterfind("devices/interface")],
        [*reasons, *_of_devices(root), *_of_live(root, live)],
    )
    return found._replace(in_the_way=[*found.in_the_way, *_unsafe(found)])


def _unsafe(found) -> Iterator[Reason]:
    """A move sends the record to other hosts, which take no other texts."""
    paths_of = [*(disk["path"] for disk in found.disks), found.variables or ""]
    if not (
        is_safe_block(found.definition, adopted.LONGEST)
        and all(is_safe(path, adopted.LONGEST_PATH) for path in paths_of)
    ):
        yield Reason("Unsafe", "its definition is longer than 64 KiB, or has template marks or what cannot be printed")


def kept(found):
    return {"definition": found.definition, "disks": found.disks, "variables": found.variables}


def renewed(connection, record, pool_of):
    """Return the record of an adopted instance with the definition, disks and NICs that its guest has now, which a move takes to
    another host. As it is without a definition, and if that is one that no host would take. ``pool_of``: record -> its pool's
    directory."""
    found = of(connection, record.uuid, {}) if adopted.of(record.spec) and record.op is None else None
    if found is None or found.in_the_way and "Unsafe" in {each.code for each in found.in_the_way}:
        return record
    own = paths.instance(pool_of(record), record.uuid)
    now = kept(found)
    files = [{**each, "path": _within(own, each["path"])} for each in now["disks"]]
    now.update(disks=files, variables=now["variables"] and _within(own, now["variables"]))
    known = {nic["mac"]: nic for nic in record.spec.get("networks") or ()}
    networks = [as_known(nic, known.get(nic["mac"], {})) for nic in found.networks]
    return record.replace(spec={**record.spec, "networks": networks, adopted.KEY: now})


def as_known(nic, known):
    """Return the NIC as its definition has it, with the addresses that its record has, which no definition says."""
    has = {part: nic[part] for part in OF_DEFINITION}
    return {**known, **has} if all(known.get(part) == nic[part] for part in ("type", "source")) else nic


def _within(directory, path):
    """Return the name of a file in the directory, the path of any other."""
    return os.path.basename(path) if os.path.dirname(path) == directory else path


def check_movable(connection, record):
    """Raise GuestNotAdoptable if the guest of an adopted instance has got what a record cannot keep: a move would lose it."""
    found = of(connection, record.uuid, {}) if adopted.of(record.spec) else None
    reasons = [each for each in found.in_the_way if each.code not in OF_INSTANCES] if found else []
    if reasons:
        raise refused(found, reasons, "move")


def refused(found, reasons, what):
    return GuestNotAdoptable(
        "%s (%s) cannot %s: %s"
        % (clean(found.name, 200), found.uuid, what, "; ".join(clean(each.said, 500) for each in reasons)),
        reasons=[each.code for each in reasons],
    )


def _variables(root, live):
    """Return the path of its UEFI variables, or None. Where libvirt chooses the firmware (virt-install --boot uefi), an old one
    names them only while the guest runs."""
    found = root.findtext("os/nvram") or (ElementTree.fromstring(live).findtext("os/nvram") if live else None)
    usual = nvram.USUAL % root.findtext("name") if root.find("os").get("firmware") == "efi" else ""
    return found or (usual if os.path.isfile(usual) else None)


def _lasting(root, variables):
    """Return the definition without what others note in it, and without what a running guest has of its host. It names the UEFI
    variables: on another host, libvirt would make new ones."""
    kept = ElementTree.fromstring(ElementTree.tostring(root))
    kept.attrib.pop("id", None)
    for metadata in kept.findall("metadata"):
        kept.remove(metadata)
    if variables and kept.find("os/nvram") is None:
        ElementTree.SubElement(kept.find("os"), "nvram").text = variables
    return ElementTree.tostring(kept, encoding="unicode")


def _disks(root):
    """Yield the disks, without drives, which may have any medium."""
    return [each for each in root.iterfind("devices/disk") if each.get("device", "disk") not in ("cdrom", "floppy")]


def _disk(element):
    source, driver, target = element.find("source"), element.find("driver"), element.find("target")
    source = {} if source is None else source.attrib
    found = {
        "element": element,
        "target": target.get("dev"),
        "path": source.get("file") or source.get("dev") or source.get("name") or source.get("volume") or "",
        "format": "raw" if driver is None else driver.get("type", "raw"),
        "size": 0,
        "error": None,
    }
    if element.get("type") == "file":
        try:
            found["size"] = virtual_size.read(found["path"], found["format"])[0]
        except (OSError, ValueError) as error:
            found["error"] = getattr(error, "strerror", None) or str(error)
    return found


def _of_domain(guest, root, lasting) -> Iterator[Reason]:
    library = require_libvirt()
    if not lasting:
        yield Reason("Transient", "it is transient, gone once it is off. Define it with virsh define")
    elif guest.XMLDesc(library.VIR_DOMAIN_XML_INACTIVE | library.VIR_DOMAIN_XML_SECURE) != lasting:
        yield Reason("HasSecret", "its definition has a password, which no record may have. Remove it with virsh edit")
    if root.get("type") not in ("kvm", "qemu") or root.findtext("os/type") != "hvm":
        yield Reason("NotQemu", "it is of type %s, no guest of QEMU or KVM" % root.get("type"))
    managers = {_namespace(each) for each in root.iterfind("metadata/*")} & set(MANAGERS)
    for manager in sorted(MANAGERS[each] for each in managers):
        yield Reason("OtherManager", "%s manages it. Take it out of there first" % manager)
    if domains.is_managed(root):
        yield Reason("IsInstance", "it is of an instance whose record is not here. See berth.kvm.doctor")
    elif mark_of(root) is not None:
        yield Reason("IsCopy", "it is a copy of an instance. Remove berth:instance from its metadata with virsh edit")
    if guest.hasManagedSaveImage(0):
        yield Reason("IsSaved", "its memory is saved. Start it, or drop that memory with virsh managedsave-remove")
    if guest.snapshotListNames(0):
        yield Reason("HasSnapshots", "libvirt has noted snapshots of it. Delete them with virsh snapshot-delete")
    if any(root.find(part) is not None for part in PINNING):
        yield Reason("IsPinned", "its CPUs or its memory are pinned, or it has huge pages: no record would count them")


def _namespace(element):
    """Nova counts versions behind it, as in .../nova/1.1."""
    space = element.tag.partition("}")[0].lstrip("{")
    return next((known for known in MANAGERS if space.startswith(known)), None)


def _of_devices(root) -> Iterator[Reason]:
    if root.find("devices/hostdev") is not None:
        yield Reason("HasHostDevice", "it has a device of its host, with which it could not move. Detach it")
    if root.find("devices/filesystem") is not None or root.find("devices/shmem") is not None:
        yield Reason("SharesWithHost", "it shares a directory or memory with its host. Take that from it")
    for nic in root.iterfind("devices/interface"):
        if nic.get("type") not in ("bridge", "network"):
            text = "its network interface %s is of type %s: only bridge and network are known"
            yield Reason("NetworkKind", text % (nic.find("mac").get("address"), nic.get("type")))


def _of_disk(disk, uuid, users) -> Iterator[Reason]:
    element, path, what = disk["element"], disk["path"], "%(target)s (%(path)s)" % disk
    if element.get("type") != "file" or element.get("device", "disk") != "disk":
        yield Reason("DiskKind", "%s is a disk of type %s, no file of this host" % (what, element.get("type")))
        return
    if disk["format"] not in FORMATS:
        yield Reason("DiskFormat", "%s has the format %s: convert it to qcow2" % (what, disk["format"]))
    if disk["error"]:
        yield Reason("DiskUnreadable", "%s cannot be read: %s" % (what, disk["error"]))
    for mark, said in DISK_MARKS.items():
        if element.find(mark) is not None or element.find("source/" + mark) is not None:
            yield Reason("DiskKind", "%s %s" % (what, said))
    yield from _of_header(disk, what, [files for user, files in users.items() if user != uuid])
    others = sorted(user for user, files in users.items() if user != uuid and os.path.realpath(path) in files)
    if others:
        yield Reason("DiskShared", "%s is a disk of another guest, too, or below one: %s" % (what, ", ".join(others)))


def _of_header(disk, what, of_others) -> Iterator[Reason]:
    """``of_others``: the files that each other guest has. A file below the disk may be below others', too, but none may be a disk
    that its guest writes to."""
    if disk["format"] != "qcow2":
        return
    for below in layers.chain(disk["path"], disk["format"]):
        if not os.path.isfile(below):
            yield Reason("HasBackingFile", "%s stands on %s, which is no file of this host" % (what, below))
        elif any(files.get(os.path.realpath(below)) for files in of_others):
            text = "%s stands on %s, to which another guest writes. Make it independent: qemu-img rebase -b '' while both are off"
            yield Reason("HasBackingFile", text % (what, below))
    if layers.read_header(disk["path"]).snapshots:
        yield Reason("HasSnapshots", "%s has snapshots inside. Delete them with virsh snapshot-delete" % what)


def _of_live(root, live) -> Iterator[Reason]:
    """The running guest must have the disks of its next start: it would continue from other data. Only its live definition
    tells of a copy under way and of what was attached to it alone."""
    if live:
        running = ElementTree.fromstring(live)
        for each in _disks(running):
            if each.find("mirror") is not None:
                yield Reason("DiskKind", "%s is being copied" % each.find("target").get("dev"))
        known = list(_of_devices(root))
        yield from (reason for reason in _of_devices(running) if reason not in known)
    if live and _sources(ElementTree.fromstring(live)) != _sources(root):
        yield Reason("DisksDiffer", "it runs with other disks than its next start would have. Make both alike")


def _sources(root) -> List[Sequence[Optional[str]]]:
    found = []
    for element in _disks(root):
        source = element.find("source")
        found.append((element.find("target").get("dev"), None if source is None else source.get("file")))
    return sorted(found, key=str)


def _nic(element):
    """Return a NIC as placement/request.py makes it."""
    kind, source, model = element.get("type"), element.find("source"), element.find("model")
    vlan, mtu = element.find("vlan/tag"), element.find("mtu")
    port, behind = element.find("virtualport"), element.find("filterref")
    name = "" if source is None else source.get(kind) or ""
    return {
        "network": name,
        "type": kind,
        "source": name,
        "mac": element.find("mac").get("address").lower(),
        "model": None if model is None else model.get("type"),
        "virtualport": None if port is None else port.get("type"),
        "mtu": None if mtu is None else int(mtu.get("size")),
        "vlan": None if vlan is None else int(vlan.get("id")),
        "nwfilter": None if behind is None else behind.get("filter"),
        "address": None,
        "gateway": None,
        "nameservers": [],
        "security": None,
    }
