# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A domain of the fake libvirt."""

from __future__ import annotations

import contextlib
from xml.etree import ElementTree

from libvirt_names import (
    BY_USER,
    CONSTANTS,
    CRASHED,
    DESTROYED,
    PAUSED,
    RUNNING,
    SAVED,
    SHUT_DOWN,
    SHUTOFF,
    UNKNOWN,
    libvirtError,
)


class FakeDomain:
    """``answers`` False: a guest that does not shut down when it is asked."""

    def __init__(self, connection, xml):
        self.connection, self.xml = connection, xml
        self.uuid = ElementTree.fromstring(xml).findtext("uuid")
        self.now, self.reason = SHUTOFF, UNKNOWN
        self.live = None  # of the running guest, where that is not its definition
        self.answers = True
        self.starts = 0
        self.undefined_with = None
        self.saved, self.saved_in_part, self.persistent = False, False, True
        self.disk_fails = False
        self.snapshots = []  # that libvirt has noted
        self.closed = False  # its memory was written: QEMU dies of a change of a file before the guest goes on
        self.memory_fails, self.restored_from = False, None
        self.takes_no_more, self.holds_on, self.resized = False, False, {}
        self.backup, self.checkpoints = None, []  # what its job says of itself, and the names that libvirt has noted
        self.nodes = {}  # of QEMU, that libvirt does not know: name -> (file, name of the one that uses it)

    def name(self):
        return ElementTree.fromstring(self.xml).findtext("name")

    def snapshotListNames(self, _flags=0):  # noqa: N802
        return self.snapshots

    def UUIDString(self):  # noqa: N802 -- libvirt's own name
        return self.uuid

    def XMLDesc(self, flags=0):  # noqa: N802
        self._check_known()
        return self.live if self.live and not flags & CONSTANTS["VIR_DOMAIN_XML_INACTIVE"] else self.xml

    def updateDeviceFlags(self, xml, flags):  # noqa: N802
        assert flags == CONSTANTS["VIR_DOMAIN_AFFECT_LIVE"]
        if self.takes_no_more:
            raise libvirtError(67, "operation not supported: cannot modify network device configuration")
        root, new = ElementTree.fromstring(self.live), ElementTree.fromstring(xml)
        if new.find("filterref").get("filter") not in self.connection.filters:
            raise libvirtError(CONSTANTS["VIR_ERR_NO_NWFILTER"], "referenced filter is missing")
        (old,) = (each for each in root.iter("interface") if each.find("mac").attrib == new.find("mac").attrib)
        root.find("devices").remove(old)
        root.find("devices").append(new)
        self.live = ElementTree.tostring(root, encoding="unicode")

    def state(self):
        self._check_known()
        return [self.now, self.reason]

    def controlInfo(self):  # noqa: N802
        return [0, 0, 0]

    def blockStatsFlags(self, _path, _flags):  # noqa: N802
        return {}

    def isActive(self):  # noqa: N802
        self._check_known()
        return self.now not in (SHUTOFF, CRASHED)

    def isPersistent(self):  # noqa: N802
        self._check_known()
        return self.persistent

    def _check_known(self):
        if self.connection.domains.get(self.uuid) is not self:
            raise libvirtError(CONSTANTS["VIR_ERR_NO_DOMAIN"], "Domain not found")

    def backupGetXMLDesc(self, _flags=0):  # noqa: N802
        if self.backup is None:
            raise libvirtError(CONSTANTS["VIR_ERR_OPERATION_INVALID"], "no domain backup job present")
        return self.backup

    def abortJob(self):  # noqa: N802
        self.backup = None

    def jobInfo(self):  # noqa: N802
        return [CONSTANTS["VIR_DOMAIN_JOB_NONE" if self.backup is None else "VIR_DOMAIN_JOB_UNBOUNDED"]]

    def listAllCheckpoints(self, _flags=0):  # noqa: N802
        return [_Checkpoint(self, name) for name in self.checkpoints]

    def managedSave(self, _flags=0):  # noqa: N802
        self.end(SAVED)
        self.saved = True

    def save(self, _file):
        """virsh save: libvirt does not remember the file."""
        self.end(SAVED)

    def restore(self, _file):
        """virsh restore, which is a call of the connection."""
        self.createWithFlags()

    def snapshotCreateXML(self, xml, flags):  # noqa: N802
        wanted = ElementTree.fromstring(xml)
        assert flags == CONSTANTS["VIR_DOMAIN_SNAPSHOT_CREATE_NO_METADATA"] and self.now == PAUSED
        targets = [each.get("dev") for each in ElementTree.fromstring(self.XMLDesc()).iterfind("devices/disk/target")]
        assert [(each.get("name"), each.get("snapshot")) for each in wanted.iter("disk")] == [
            (each, "no") for each in targets
        ]
        with open(wanted.find("memory[@snapshot='external']").get("file"), "w", encoding="utf-8") as stream:
            stream.write(self.XMLDesc())
        if self.memory_fails:
            raise libvirtError(38, "no space left on device")
        self.closed = True

    def managedSaveRemove(self, _flags=0):  # noqa: N802
        self.saved = False

    def hasManagedSaveImage(self, _flags=0):  # noqa: N802
        self._check_known()
        return int(self.saved)

    def createWithFlags(self, _flags=0):  # noqa: N802
        if self.isActive():
            raise libvirtError(55, "domain is already running")
        self.connection.ask_the_gate(self)
        self.saved = False
        self.now, self.reason, self.starts = RUNNING, UNKNOWN, self.starts + 1

    def managedSaveGetXMLDesc(self, _flags=0):  # noqa: N802
        if not self.saved or self.saved_in_part:
            raise libvirtError(CONSTANTS["VIR_ERR_OPERATION_INVALID"], "save image is incomplete")
        return self.xml

    def maxMemory(self):  # noqa: N802
        return 64 << 10

    def suspend(self):
        self._check_known()
        if self.now != PAUSED:
            self.now, self.reason = PAUSED, BY_USER

    def resume(self):
        self.closed = False
        if not self.disk_fails:
            self.now, self.reason = RUNNING, UNKNOWN

    def pMWakeup(self):  # noqa: N802
        self.now = RUNNING

    def shutdownFlags(self, _flags=0):  # noqa: N802
        if self.answers:
            self.end(SHUT_DOWN)

    def destroy(self):
        if not self.isActive():
            raise libvirtError(55, "domain is not running")
        self.end(DESTROYED)

    def attachDeviceFlags(self, xml, flags):  # noqa: N802
        if self.takes_no_more:
            raise libvirtError(1, "No more available PCI slots")
        if self.nodes:
            raise libvirtError(1, "unable to execute QEMU command 'blockdev-add': Duplicate nodes")
        with self._edited(flags) as root:
            root.find("devices").append(ElementTree.fromstring(xml))

    def detachDeviceFlags(self, xml, flags):  # noqa: N802
        if flags == CONSTANTS["VIR_DOMAIN_AFFECT_LIVE"] and self.holds_on:
            self.live = self.live or self.xml
            return
        gone = _device(ElementTree.fromstring(xml))
        with self._edited(flags) as root:
            devices = root.find("devices")
            for element in [element for element in devices if _device(element) == gone]:
                devices.remove(element)

    @contextlib.contextmanager
    def _edited(self, flags):
        """The definition that the flags mean: that of the running guest where it is not that of its next start."""
        where = "live" if flags == CONSTANTS["VIR_DOMAIN_AFFECT_LIVE"] and self.live else "xml"
        root = ElementTree.fromstring(getattr(self, where))
        yield root
        setattr(self, where, ElementTree.tostring(root, encoding="unicode"))

    def setSchedulerParametersFlags(self, numbers, flags):  # noqa: N802
        called = {"cpu_shares": "shares", "vcpu_period": "period", "vcpu_quota": "quota"}
        with self._edited(flags) as root:
            _numbered(root, "cputune", {called[name]: number for name, number in numbers.items()})

    def setBlockIoTune(self, target, numbers, flags):  # noqa: N802
        with self._edited(flags) as root:
            (disk,) = (each for each in root.iter("disk") if each.find("target").get("dev") == target)
            _numbered(disk, "iotune", numbers)

    def setInterfaceParameters(self, mac, numbers, flags):  # noqa: N802
        with self._edited(flags) as root:
            (nic,) = (each for each in root.iter("interface") if each.find("mac").get("address") == mac)
            for old in nic.findall("bandwidth"):
                nic.remove(old)
            bandwidth = ElementTree.SubElement(nic, "bandwidth")
            for way in ("inbound", "outbound"):
                if numbers[way + ".average"]:
                    given = {
                        name.partition(".")[2]: str(number) for name, number in numbers.items() if name.startswith(way)
                    }
                    ElementTree.SubElement(bandwidth, way, given)

    def blockResize(self, path, size, _flags):  # noqa: N802
        if path not in self.xml:
            raise libvirtError(8, "invalid argument: disk '%s' not found in domain" % path)
        self.resized[path] = size

    def setMetadata(self, kind, text, _key, uri, flags):  # noqa: N802
        if flags & CONSTANTS["VIR_DOMAIN_AFFECT_CONFIG"] and not self.persistent:
            raise libvirtError(55, "transient domains do not have any persistent config")
        if kind == CONSTANTS["VIR_DOMAIN_METADATA_TITLE"]:
            with self._edited(CONSTANTS["VIR_DOMAIN_AFFECT_CONFIG"]) as root:
                root.find("title").text = text
            return
        root = ElementTree.fromstring(self.xml)
        mark = root.find("metadata")
        if mark is None:
            mark = ElementTree.SubElement(root, "metadata")
        for there in mark.findall("{%s}instance" % uri):
            mark.remove(there)
        if text is None:
            self.xml = ElementTree.tostring(root, encoding="unicode")
            return
        given = ElementTree.fromstring(text)
        if "}" in given.tag:
            raise libvirtError(1, "internal error: failed to create a new XML namespace")
        for element in given.iter():
            element.tag = "{%s}%s" % (uri, element.tag)
        mark.append(given)
        self.xml = ElementTree.tostring(root, encoding="unicode")
        if self.live and flags & CONSTANTS["VIR_DOMAIN_AFFECT_LIVE"]:
            live = ElementTree.fromstring(self.live)
            for old in live.findall("metadata"):
                live.remove(old)
            live.append(mark)
            self.live = ElementTree.tostring(live, encoding="unicode")

    def undefineFlags(self, flags=0):  # noqa: N802
        self.undefined_with = flags
        self.persistent = False
        if not self.isActive():
            del self.connection.domains[self.uuid]

    def end(self, reason):
        """The guest is off now, for that reason."""
        self.now, self.reason, self.live, self.closed = SHUTOFF, reason, None, False
        if not self.persistent:
            del self.connection.domains[self.uuid]


class _Checkpoint:
    def __init__(self, domain, name):
        self.domain, self.name = domain, name

    def getName(self):  # noqa: N802
        return self.name

    def delete(self, flags):
        assert flags == CONSTANTS["VIR_DOMAIN_CHECKPOINT_DELETE_METADATA_ONLY"], "its bitmap would go, too"
        self.domain.checkpoints.remove(self.name)


def _device(element):
    """What names a device in a request to detach it."""
    if element.tag == "interface":
        return element.find("mac").get("address")
    source = element.find("source")
    return element.tag if element.tag != "disk" or source is None else source.get("file")


def _numbered(parent, tag, numbers):
    element = parent.find(tag)
    if element is None:
        element = ElementTree.SubElement(parent, tag)
    for name, number in numbers.items():
        part = element.find(name)
        if part is None:
            part = ElementTree.SubElement(element, name)
        part.text = str(number)
