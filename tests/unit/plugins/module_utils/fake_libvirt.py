# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A libvirt without hosts: domains that are defined, started, stopped, and the boot gate that it asks before a start.

``FakeHost`` is compute.host.Host on it; compute/conftest.py makes one with a store and a pool in a temporary directory:
fixture ``prepared`` is a host as prepare_hosts leaves it, ``make_host`` makes several.
"""

from __future__ import annotations

import json
import types
from xml.etree import ElementTree

from fake_domain import FakeDomain
from libvirt_names import (  # noqa: F401 -- a test has all of libvirt from here; pylint: disable=unused-import
    BY_USER,
    CONSTANTS,
    CRASH,
    CRASHED,
    DESTROYED,
    FAILED,
    IO_ERROR,
    MIGRATED,
    PAUSED,
    RUNNING,
    SAVED,
    SHUT_DOWN,
    SHUTOFF,
    UNKNOWN,
    library,
    libvirtError,
)

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import gate
from ansible_collections.berth.kvm.plugins.module_utils.compute.host.host import Host

HOST_UUID = "11111111-3c6e-5d59-9d0b-3a1c9d7f1e2a"


class FakeFilter:
    """A network filter: its definition as it was given."""

    def __init__(self, connection, xml):
        self.connection, self.xml = connection, xml

    def name(self):
        return ElementTree.fromstring(self.xml).get("name")

    def UUIDString(self):  # noqa: N802
        return ElementTree.fromstring(self.xml).findtext("uuid")

    def XMLDesc(self, _flags=0):  # noqa: N802
        return self.xml

    def undefine(self):
        used = 'filter="%s"' % self.name()
        if any(domain.isActive() and used in domain.xml for domain in self.connection.domains.values()):
            raise libvirtError(55, "nwfilter is in use")
        del self.connection.filters[self.name()]


class FakeConnection:
    """``gate_is_read`` False: a libvirt that was started when there was no hook."""

    def __init__(self, run_dir, pool_path):
        self.run_dir, self.pool_path = run_dir, pool_path
        self.domains = {}
        self.pools = {}  # name -> directory; every other name is a pool at pool_path
        self.stopped_pools = set()
        self.gate_is_read = True
        self.filters = {}
        self.networks = []
        self.old_machines = ()  # the concrete machine types that it knows

    def getCapabilities(self):  # noqa: N802
        return "<capabilities/>"

    def complete_as(self, machine, first_slot):
        """From here on be a libvirt that has ``machine`` for q35, and gives devices without an address PCI slots from there."""
        plain = type(self).defineXMLFlags

        def define(xml, flags=0):
            return plain(self, completed(xml, machine, first_slot), flags)

        self.defineXMLFlags, self.old_machines = define, (*self.old_machines, machine)

    def nwfilterDefineXML(self, xml):  # noqa: N802
        found = FakeFilter(self, xml)
        there = self.filters.get(found.name())
        if there and there.UUIDString() != found.UUIDString():
            raise libvirtError(1, "filter already exists with another uuid")
        self.filters[found.name()] = found

    def nwfilterLookupByName(self, name):  # noqa: N802
        if name not in self.filters:
            raise libvirtError(CONSTANTS["VIR_ERR_NO_NWFILTER"], "no filter")
        return self.filters[name]

    def listAllNWFilters(self, _flags=0):  # noqa: N802
        return list(self.filters.values())

    def lookupByUUIDString(self, uuid):  # noqa: N802
        if uuid not in self.domains:
            raise libvirtError(CONSTANTS["VIR_ERR_NO_DOMAIN"], "no domain with matching uuid")
        return self.domains[uuid]

    def lookupByName(self, name):  # noqa: N802
        for domain in self.domains.values():
            if domain.name() == name:
                return domain
        raise libvirtError(CONSTANTS["VIR_ERR_NO_DOMAIN"], "no domain with matching name")

    def defineXMLFlags(self, xml, _flags=0):  # noqa: N802
        root = ElementTree.fromstring(xml)
        uuid = root.findtext("uuid")
        if any(other.name() == root.findtext("name") for key, other in self.domains.items() if key != uuid):
            raise libvirtError(9, "domain '%s' already exists with another uuid" % root.findtext("name"))
        if uuid in self.domains and self.domains[uuid].name() != root.findtext("name"):
            raise libvirtError(9, "domain '%s' is already defined with uuid %s" % (self.domains[uuid].name(), uuid))
        refuse_double_use(root)
        if uuid in self.domains:
            self.domains[uuid].xml, self.domains[uuid].persistent = xml, True
        else:
            self.domains[uuid] = FakeDomain(self, xml)
        return self.domains[uuid]

    def saveImageGetXMLDesc(self, path, _flags=0):  # noqa: N802
        with open(path, encoding="utf-8") as stream:
            found = stream.read()
        if not found.startswith("<domain"):
            raise libvirtError(CONSTANTS["VIR_ERR_OPERATION_FAILED"], "image magic is incorrect")
        return found

    def restoreFlags(self, path, xml, flags):  # noqa: N802
        """libvirt takes what has as many CPUs of the same model, and QEMU what has the same firmware."""
        assert flags == CONSTANTS["VIR_DOMAIN_SAVE_RUNNING"]
        now, then = (ElementTree.fromstring(text) for text in (xml, self.saveImageGetXMLDesc(path)))
        for part in ("vcpu", "cpu", "os"):
            if [ElementTree.tostring(each) for each in now.iter(part)] != [
                ElementTree.tostring(each) for each in then.iter(part)
            ]:
                raise libvirtError(CONSTANTS["VIR_ERR_CONFIG_UNSUPPORTED"], "Target %s does not match source" % part)
        guest = self.domains[now.findtext("uuid")]
        guest.createWithFlags()
        guest.restored_from = path

    def storagePoolLookupByName(self, name):  # noqa: N802
        path = self.pools.get(name, self.pool_path)
        text = "<pool type='dir'><name>%s</name><target><path>%s</path></target></pool>" % (name, path)
        active = name not in self.stopped_pools
        return types.SimpleNamespace(XMLDesc=lambda _flags: text, isActive=lambda: active, autostart=lambda: 1)

    def listAllDomains(self, flags=0):  # noqa: N802
        transient = flags == CONSTANTS["VIR_CONNECT_LIST_DOMAINS_TRANSIENT"]
        return [domain for domain in self.domains.values() if not (transient and domain.persistent)]

    def getAllDomainStats(self, _stats=0, _flags=0):  # noqa: N802
        return [(domain, {"state.state": domain.state()[0]}) for domain in self.domains.values()]

    def listAllNetworks(self, _flags=0):  # noqa: N802
        return self.networks

    def listAllStoragePools(self, _flags=0):  # noqa: N802
        return [self.storagePoolLookupByName(name) for name in ("berth", *self.pools)]

    def getHostname(self):  # noqa: N802
        return "kvm1"

    def ask_the_gate(self, domain):
        """What the hook does: a managed guest without a permit of this boot is refused."""
        if self.gate_is_read and gate.NAMESPACE in domain.xml and not gate.is_permitted(domain.uuid, self.run_dir):
            raise libvirtError(CONSTANTS["VIR_ERR_HOOK_SCRIPT_FAILED"], "Hook script execution failed")

    def getLibVersion(self):  # noqa: N802
        return 9000000

    def lose_power(self):
        """All guests are off; the test gives the host another boot id."""
        for domain in self.domains.values():
            domain.end(UNKNOWN)


def refuse_double_use(root):
    """No two devices at one PCI address, no two controllers of one type and index."""
    places = [ElementTree.tostring(at) for at in root.iterfind("devices/*/address[@type='pci']")]
    numbers = [(controller.get("type"), controller.get("index")) for controller in root.iterfind("devices/controller")]
    for kind in (places, numbers):
        twice = [entry for entry in kind if kind.count(entry) > 1]
        if twice:
            raise libvirtError(CONSTANTS["VIR_ERR_XML_ERROR"], "XML error: Attempted double use of %s" % (twice[0],))


def completed(xml, machine, first_slot):
    """The definition as libvirt gives it back: a concrete machine type, a PCI port, and an address for each device."""
    root = ElementTree.fromstring(xml)
    element, devices = root.find("os/type"), root.find("devices")
    if element.get("machine") == "q35":
        element.set("machine", machine)
    if devices.find("controller[@model='pcie-root-port']") is None:
        ElementTree.SubElement(devices, "controller", type="pci", index="1", model="pcie-root-port")
    if devices.find("controller[@model='pcie-root']") is None:
        ElementTree.SubElement(devices, "controller", type="pci", index="0", model="pcie-root")
    taken = {device.find("address").get("slot") for device in devices if device.find("address") is not None}
    free = (slot for slot in range(first_slot, 256) if "0x%02x" % slot not in taken)
    for device in devices:
        if (
            device.tag in ("disk", "interface", "controller", "rng", "memballoon")
            and device.get("model") != "pcie-root"
        ):
            if device.find("address") is None:
                place = {"domain": "0x0000", "bus": "0x00", "slot": "0x%02x" % next(free), "function": "0x0"}
                ElementTree.SubElement(device, "address", type="pci", **place)
    return ElementTree.tostring(root, encoding="unicode")


class FakeHost(Host):
    """A prepared host: gate and confinement are as they should be unless a test says otherwise."""

    uuid = HOST_UUID
    domain_type = "qemu"

    @property
    def capabilities(self):
        return types.SimpleNamespace(
            uuid=self.uuid,
            arch="x86_64",
            security_models=("apparmor",),
            machine_types=("pc", "q35", *self.connection.old_machines),
        )


class NamedHost:
    """What the checks of disks need of a compute host, kvm1: its name and its pool. There is no libvirt behind it."""

    def __init__(self, pool):
        self.pool, self.connection = str(pool), self

    def getAllDomainStats(self, _stats=0, _flags=0):  # noqa: N802
        return []

    def getHostname(self):  # noqa: N802
        return "kvm1"

    def pool_of(self, record):
        return self.pool


class QemuPart:
    """libvirt_qemu: what the QEMU of a fake domain answers about its ``nodes``; ``cut``: what cuts its connections."""

    @staticmethod
    def qemuMonitorCommand(domain, text, _flags):  # noqa: N802
        asked = json.loads(text)
        if asked["execute"] == "query-named-block-nodes":
            return json.dumps(
                {"return": [{"node-name": name, "file": file} for name, (file, _user) in domain.nodes.items()]}
            )
        if asked["execute"] == "query-yank":
            connections = [name for name in domain.nodes if name.endswith("-storage")]
            of_nodes = [{"type": "block-node", "node-name": name} for name in connections]
            return json.dumps({"return": [{"type": "chardev", "id": "charmonitor"}, *of_nodes]})
        if asked["execute"] == "yank":
            domain.cut([each["node-name"] for each in asked["arguments"]["instances"]])
            return json.dumps({"return": {}})
        name = asked["arguments"]["node-name"]
        user = domain.nodes[name][1]
        if user == "a device" or user in domain.nodes:
            return json.dumps({"error": {"class": "GenericError", "desc": "Node %s is in use" % name}})
        del domain.nodes[name]
        return json.dumps({"return": {}})
