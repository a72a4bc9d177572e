# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host of which libvirt answers as it was recorded, and the facts that are collected there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import differences
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import facts, settings
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record

libvirt = pytest.importorskip("libvirt")
DATA = Path(__file__).parent / "compute" / "data"
GIB = 1 << 30
UUIDS = ["6695eb01-f6a4-8304-79aa-%012d" % number for number in range(10)]

ONE_CELL = """<topology><cells num='1'><cell id='0'><memory unit='KiB'>4028416</memory>
<pages unit='KiB' size='4'>1007104</pages>
<cpus num='2'><cpu id='0' socket_id='0' core_id='0' siblings='0'/>
<cpu id='1' socket_id='0' core_id='1' siblings='1'/></cpus>
</cell></cells></topology>"""


class Pool:
    """A pool that is no directory, so that its numbers are what a test says."""

    def __init__(self, capacity_gb, free_gb, name="berth"):
        self._name, self.numbers = name, [2, capacity_gb * GIB, 0, free_gb * GIB]

    def name(self):
        return self._name

    def XMLDesc(self, _flags):
        return "<pool type='logical'><target><path>/nonexistent</path></target></pool>"

    def refresh(self, _flags):
        pass

    def info(self):
        return self.numbers


class Domain:
    def __init__(self, uuid, memory_mb=64, vcpus=1, name="foreign", state=5):
        self.uuid, self.memory_mb, self.vcpus, self._name, self.state = uuid, memory_mb, vcpus, name, state

    def UUIDString(self):
        return self.uuid

    def name(self):
        return self._name

    def controlInfo(self):
        return [0, 0, 0]

    def XMLDesc(self, flags):
        assert flags == libvirt.VIR_DOMAIN_XML_INACTIVE
        return "<domain><name>%s</name><uuid>%s</uuid><memory>%d</memory><vcpu>%d</vcpu><devices/></domain>" % (
            self._name, self.uuid, self.memory_mb * 1024, self.vcpus,
        )  # fmt: skip


class Directory(Pool):
    """A pool that is a directory: its numbers are those of the file system."""

    def __init__(self, name, path):
        self._name, self.path = name, path

    def XMLDesc(self, _flags):
        return "<pool type='dir'><target><path>%s</path></target></pool>" % self.path


class Named:
    def __init__(self, name):
        self._name = name

    def name(self):
        return self._name


class Libvirt:
    """A host of 3934 MiB with 2 CPUs in one cell; a call that facts should not make has no method here."""

    def __init__(self, domains=(), pools=None, capabilities=None, networks=("default",)):
        self.domains, self.networks = domains, networks
        self.pools = [Pool(18, 9)] if pools is None else pools
        text = (DATA / "capabilities.xml").read_text()
        start, end = text.index("<topology>"), text.index("</topology>")
        self.capabilities = capabilities or text[:start] + ONE_CELL + text[end + len("</topology>") :]

    def getCapabilities(self):
        return self.capabilities

    def getDomainCapabilities(self, _emulator, _arch, _machine, domain_type, _flags):
        if domain_type == "kvm":
            raise libvirt.libvirtError("the accel 'kvm' is not supported")
        return (DATA / "domain_capabilities.xml").read_text()

    def baselineCPU(self, _cpus, _flags):
        return "<cpu><model>EPYC</model><feature name='avx2'/><feature name='sha-ni'/></cpu>"

    def getAllDomainStats(self, stats, flags):
        assert (stats, flags) == (libvirt.VIR_DOMAIN_STATS_STATE, 0), "anything more asks each QEMU"
        return [(domain, {"state.state": domain.state}) for domain in self.domains]

    def listAllDomains(self, flags):
        assert flags == libvirt.VIR_CONNECT_LIST_DOMAINS_TRANSIENT
        return []

    def listAllStoragePools(self, _flags):
        return self.pools

    def listAllNetworks(self, flags):
        assert flags == libvirt.VIR_CONNECT_LIST_NETWORKS_ACTIVE
        if self.networks is None:
            raise libvirt.libvirtError("this function is not supported by the connection driver")
        return [Named(name) for name in self.networks]

    def listAllNWFilters(self, _flags):
        return [Named("clean-traffic")]

    def listAllDevices(self, _flags):
        return []

    def getCPUMap(self, _flags):
        return (2, [True, True], 2)

    def getInfo(self):
        return ["x86_64", 1000, 2, 2600, 1, 1, 2, 1]

    def getMemoryStats(self, _cell, _flags):
        return {"total": 3934 * 1024, "free": 1}

    def getHostname(self):
        return "kvm1"

    def getType(self):
        return "QEMU"

    def getVersion(self):
        return 2005000

    def getLibVersion(self):
        return 9000000


def record(number, role="OWN", phase="active", memory_mb=64, disk_gb=1, **spec):
    flavor = {"name": "m1.tiny", "vcpus": 1, "memory_mb": memory_mb, "root_gb": disk_gb, "extra_specs": {}}
    return Record(
        uuid=UUIDS[number],
        name="web-%d" % number,
        project_id="default",
        role=role,
        generation=[1, 1],
        token="t",
        phase=phase,
        spec={"flavor": flavor, **spec},
        resources={"vcpus": 1, "pcpus": 0, "memory_mb": memory_mb, "disk_gb": disk_gb, "pci_devices": []},
    )


def collect(domains=(), records=(), options=(), tmp_path=Path("/nonexistent"), **libvirt_options):
    host_settings = settings.parse({"reserved_host_memory_mb": 512, **dict(options)})
    libvirt = Libvirt(domains, **libvirt_options)
    document = facts.collect(
        libvirt, host_settings, list(records), str(tmp_path / "state"), missing=differences.reported_missing
    )
    return json.loads(json.dumps(document))
