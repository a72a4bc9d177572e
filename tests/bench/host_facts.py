# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time of the facts of a host with 200 instances, against the bare libvirt calls that they need; both in one run. Each instance
has a record and a definition, so the facts compare the two. ``--without-records`` has domains that others made instead.

The best of all rounds is compared, since whatever else runs on the machine only adds; the median is told too.
Needs a lab of its own and root. Writes .bench/host_facts.json: [{name, value, unit, against, ratio}].
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import sys
import time
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "lab"))

from client import LabClient, run  # noqa: E402

sys.path.insert(0, str(REPOSITORY / ".cache" / "collections"))

from ansible_collections.berth.kvm.plugins.module_utils.model import host_document  # noqa: E402

INSTANCES = 20
PACKAGE = "ansible_collections/berth/kvm/plugins/module_utils"

# Runs on the lab's host: defines the domains, then takes turns, so that both sides see the same load of the machine.
ON_HOST = r"""
import base64, json, os, statistics, subprocess, sys, tempfile, time
archive = tempfile.NamedTemporaryFile(suffix=".zip")
archive.write(base64.b64decode(ARCHIVE)); archive.flush()
sys.path.insert(0, archive.name)
import libvirt
from ansible_collections.berth.kvm.plugins.module_utils.compute import connection, durable
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import definition
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import facts, settings
from ansible_collections.berth.kvm.plugins.module_utils.compute.host.host import Host
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import store as stores
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record

POOL = "/var/lib/libvirt/berth"
DOMAIN = '''<domain type="qemu"><name>%s</name><uuid>%s</uuid><memory unit="MiB">64</memory><vcpu>1</vcpu>
<os><type arch="x86_64">hvm</type></os><devices>
<disk type="file" device="disk"><driver name="qemu" type="qcow2"/>
<source file="''' + POOL + '''/%s"/><target dev="vda" bus="virtio"/></disk>
<interface type="bridge"><source bridge="br0"/><model type="virtio"/></interface>
<serial type="pty"/><console type="pty"/><rng model="virtio"><backend model="random">/dev/urandom</backend></rng>
</devices></domain>'''


def make(name, uuid):
    if not RECORDS:
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "--", POOL + "/" + name, "1G"], check=True)
        link.defineXML(DOMAIN % (name, uuid, POOL + "/" + name))
        return
    directory = os.path.join(POOL, "instances", uuid)
    os.makedirs(directory)
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "--", directory + "/disk", "1G"], check=True)
    spec = {
        "uuid": uuid, "name": name, "pool": "berth", "metadata": {}, "image": {"name": "guest", "properties": {}},
        "flavor": {"name": "tiny", "vcpus": 1, "memory_mb": 64, "root_gb": 1, "ephemeral_gb": 0, "swap_mb": 0, "extra_specs": {}},
        "networks": [{"type": "bridge", "source": "br0", "mac": "02:00:00:00:%02x:%02x" % divmod(int(uuid[-6:], 16), 256)}],
    }
    record = Record(uuid, name, "default", "OWN", [1, 0], "t", "active", spec, {"vcpus": 1, "memory_mb": 64, "disk_gb": 1},
                    vm_state="active")
    record = definition.define(link, record, host.for_guests("berth"))
    with store.instance_lock(uuid):
        durable.write(store._held[uuid], stores.RECORD, stores._encode(record))


def remove(name, uuid):
    definition.remove(link, uuid) if RECORDS else link.lookupByName(name).undefine()


link = connection.connect()
subprocess.run(["mkdir", "-p", POOL], check=True)
try:
    pool = link.storagePoolLookupByName("berth")
except libvirt.libvirtError:
    pool = "<pool type='dir'><name>berth</name><target><path>%s</path></target></pool>" % POOL
    pool = link.storagePoolDefineXML(pool)
if not pool.isActive():
    pool.create()
store = stores.Store(tempfile.mkdtemp())
host = Host(store=store, settings=settings.HostSettings())
guests = [("bench%d" % number, "00000000-0000-4000-8000-%012x" % number) for number in range(DOMAINS)]
for guest in guests:
    make(*guest)


def raw():
    # every call that facts.collect makes, once, and nothing else
    link.getCapabilities()
    for kind in ("kvm", "qemu"):
        try:
            caps = link.getDomainCapabilities(None, None, None, kind, 0)
        except libvirt.libvirtError:
            pass
    domains = [domain for domain, _stats in link.getAllDomainStats(libvirt.VIR_DOMAIN_STATS_STATE, 0)]
    link.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_TRANSIENT)
    for domain in domains:
        domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    for one in link.listAllStoragePools(libvirt.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE):
        one.XMLDesc(0)
    link.getCPUMap(0), link.getInfo(), link.getMemoryStats(-1, 0)
    for device in link.listAllDevices(libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV):
        device.XMLDesc(0)
    link.baselineCPU([CPU], libvirt.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES)
    link.getHostname(), link.getType(), link.getVersion(), link.getLibVersion()
    return len(domains)


CPU = "<cpu><arch>x86_64</arch><model>EPYC</model></cpu>"
times = {"facts": [], "raw": []}
for turn in range(ROUNDS + 2):
    for name in ("facts", "raw") if turn % 2 else ("raw", "facts"):
        began = time.perf_counter()
        if name == "raw":
            count = raw()
        else:
            document = facts.collect(link, host.settings, store.records(), store.state_dir)
        if turn > 1:
            times[name].append(time.perf_counter() - began)
assert count == document["num_instances"] == DOMAINS, (count, document["num_instances"], DOMAINS)
assert not any(instance.get("domain_differs") for instance in document["instances"])
for guest in guests:
    remove(*guest)
print(json.dumps({
    "best": {name: min(values) for name, values in times.items()},
    "median": {name: statistics.median(values) for name, values in times.items()},
    "document": document,
}))
"""


def archive():
    """The collection's module_utils as a zip file that Python imports from, in base64."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for path in sorted((REPOSITORY / "plugins" / "module_utils").rglob("*.py")):
            file.write(path, "%s/%s" % (PACKAGE, path.relative_to(REPOSITORY / "plugins" / "module_utils")))
        for depth in range(1, PACKAGE.count("/") + 1):
            file.writestr("/".join(PACKAGE.split("/")[:depth]) + "/__init__.py", "")
    return base64.b64encode(data.getvalue()).decode()


def hosts_per_second(document):
    """How many documents of a usual size the controller checks in a second."""
    document = {**document, "instances": document["instances"][:INSTANCES], "num_instances": INSTANCES}
    began = time.perf_counter()
    for _each in range(1000):
        host_document.check(document)
    return 1000 / (time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lab", default="bench", help="name of the lab (default: %(default)s)")
    parser.add_argument("--domains", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--without-records", action="store_true", help="domains that others made")
    options = parser.parse_args()
    lab = LabClient(options.lab)
    lab.up(1, "1:disk=2G")
    lab.compile_modules_each_run()
    try:
        given = (options.domains, options.rounds, not options.without_records, archive())
        code = "DOMAINS, ROUNDS, RECORDS, ARCHIVE = %d, %d, %r, %r\n" % given + ON_HOST
        argv = [REPOSITORY / "lab" / "lab", "--name", lab.name, "exec", lab.host(1), "/usr/bin/python3", "-"]
        measured = json.loads(run(argv, stdin=code, check=True).stdout.splitlines()[-1])
    finally:
        lab.down()
    checked = hosts_per_second(measured["document"])
    rows = [
        {
            "name": "host_facts of %d %s, %s of %d"
            % (options.domains, "domains" if options.without_records else "instances", kind, options.rounds),
            "value": round(measured[kind]["facts"] * 1000, 1),
            "unit": "ms",
            "against": "bare libvirt calls, %.1f ms" % (measured[kind]["raw"] * 1000),
            "ratio": round(measured[kind]["facts"] / measured[kind]["raw"], 3),
        }
        for kind in ("best", "median")
    ] + [
        {
            "name": "check of host documents with %d instances" % INSTANCES,
            "value": round(checked),
            "unit": "hosts/s",
            "against": "1000 hosts/s",
            "ratio": round(checked / 1000, 3),
        },
    ]
    target = REPOSITORY / ".bench"
    target.mkdir(exist_ok=True)
    (target / "host_facts.json").write_text(json.dumps(rows, indent=1) + "\n")
    for row in rows:
        print("{name}: {value} {unit}, {ratio} x {against}".format(**row))
    return 0 if rows[0]["ratio"] < 1.5 and checked > 1000 else 1


if __name__ == "__main__":
    sys.exit(main())
