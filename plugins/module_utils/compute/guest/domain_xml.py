# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The definition of a guest in libvirt's XML, rendered only from its record and what the host can do: its disks and the
seed with their buses, NICs, CPUs, firmware, devices.

model/guest_features.py lists the image properties and extra specs that are used here, by Nova's names (the flavor's
hw:x overrides hw_x). CPU pinning, NUMA cells, page sizes, PCI devices and vGPUs come from the claim's allocation. The
screen is VNC on 127.0.0.1.
"""

from __future__ import annotations

import collections
import json
from xml.etree import ElementTree

from ...model import adopted, flavor_limits, hot_plug, nics, rescues, volumes
from ...model.guest_settings import TARGET_PREFIX, GuestSettings, is_true
from .. import paths
from ..disk import attached, volume_files
from ..disk import disk as disks
from ..disk.disk import named_boot_files
from ..host import capabilities, mdev
from . import domain, hardware, nvram, packet_filter, seed
from .terms import GUEST_AGENT, NAMESPACE, Host

# Helpers that write the parts of a guest's definition.
MIB = 1024  # KiB


def child(parent, tag, text=None, **attributes):
    element = ElementTree.SubElement(
        parent, tag, {name: str(value) for name, value in attributes.items() if value is not None}
    )
    if text is not None:
        element.text = str(text)
    return element


def ranges(numbers):
    """Return "0-3,8" for a set of numbers."""
    parts = []
    for number in sorted(set(numbers)):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else "%d-%d" % (low, high) for low, high in parts)


# A guest whose memory its host cannot read: AMD SEV, as in Nova's libvirt driver.
# No debugging, no key shared with another guest, no migration to another platform or one without SEV: 1 + 2 + 16 + 32.
POLICY = "0x0033"


def encrypt(root):
    """Change a whole definition. libvirt asks the host where the encryption bit is."""
    devices = root.find("devices")
    # libvirt would add it without a driver element
    child(devices, "controller", type="virtio-serial", index=0)
    for device in devices:
        through_iommu(device)
    security = child(root, "launchSecurity", type="sev")
    child(security, "policy", POLICY)


def through_iommu(device):
    """Have a virtio device use the guest's address translation: without it, the device would read encrypted memory."""
    if _is_virtio(device):
        driver = device.find("driver")
        if driver is None:
            driver = child(device, "driver")
        driver.set("iommu", "on")


def _is_virtio(device):
    target, model = device.find("target"), device.find("model")
    if device.tag == "disk":
        return target.get("bus") == "virtio"
    if device.tag == "interface":
        return model is not None and model.get("type") == "virtio"
    if device.tag == "controller":
        return device.get("type") == "virtio-serial" or (device.get("model") or "").startswith("virtio")
    if device.tag == "video":
        return model.get("type") == "virtio"
    return device.tag in ("rng", "memballoon") and device.get("model") == "virtio"


# Places the CPUs and the memory of a guest on its host, as its claim set them aside, cell by cell.
PRIORITY = 1  # of real-time vCPUs, like Nova's realtime_scheduler_priority


def memory_backing(root, cells, settings, realtime):
    """Use huge pages, which are never swapped, as allocated. Lock memory if that is requested or follows: a real-time
    vCPU must not wait for a page, and encrypted memory cannot be moved."""
    pages = [(index, cell["pagesize"]) for index, cell in enumerate(cells) if (cell.get("pagesize") or 0) > 4]
    locked = is_true(settings.get("locked_memory", "false")) or settings.encrypts_memory() or realtime
    if not (pages or locked):
        return
    backing = child(root, "memoryBacking")
    if locked:
        child(backing, "locked")
    if pages:
        huge = child(backing, "hugepages")
        for index, size in pages:
            child(huge, "page", size=size, unit="KiB", nodeset=index)
    if realtime:
        child(backing, "nosharepages")


def cpu_limits(root, specs):
    """Write the limits of the flavor's extra specs."""
    numbers = flavor_limits.of_cpu(specs)
    tune = child(root, "cputune") if numbers else None
    for name, number in numbers.items():
        child(tune, name, number)


def pinning(root, cells, realtime):
    """Write cputune and numatune: guest cell i is bound to the host cell of the allocation."""
    if not cells:
        return
    tune = root.find("cputune")
    if tune is None:
        tune = child(root, "cputune")
    pins, reserved = {}, set()
    for cell in cells:
        reserved.update(cell.get("cpuset_reserved") or ())  # hw:emulator_threads_policy=isolate
        pins.update((int(vcpu), cpu) for vcpu, cpu in (cell.get("cpu_pinning") or {}).items())
    for vcpu, cpu in sorted(pins.items()):
        child(tune, "vcpupin", vcpu=vcpu, cpuset=ranges([cpu]))
    if pins:
        # the emulator's threads would stop a real-time vCPU on the same CPU
        others = {cpu for vcpu, cpu in pins.items() if vcpu not in realtime} or set(pins.values())
        child(tune, "emulatorpin", cpuset=ranges(reserved or others))
    elif not len(tune):
        root.remove(tune)
    if realtime:
        child(tune, "vcpusched", vcpus=ranges(realtime), scheduler="fifo", priority=PRIORITY)
    numa = child(root, "numatune")
    child(numa, "memory", mode="strict", nodeset=ranges(cell["id"] for cell in cells))
    for index, cell in enumerate(cells):
        child(numa, "memnode", cellid=index, mode="strict", nodeset=cell["id"])


COPIED = (
    "uuid",
    "name",
    "project_id",
    "spec",
    "resources",
)  # from the record, so that it can be restored if it is lost
LETTERS = "abcdefghijklmnopqrstuvwxyz"
# Data disks begin at vde: a flavor has at most root, ephemeral and swap, and with the seed these are vda to vdd.
FIRST_DATA = 4
DISKS_ON_SCSI = 7  # libvirt puts so many on each controller, by letter; one that it adds itself has another model
MAX_QUEUES = 16
SLOTS = 16  # how often a running guest gets more memory until it is started again
IGNITION_NAMES = ("opt/com.coreos/config", "opt/org.flatcar-linux/config")  # Fedora and RHEL CoreOS; Flatcar
# Nova's list. No evmcs, which needs a CPU of Intel on each host, and no reenlightenment: QEMU does not migrate it live.
HYPERV = ("relaxed", "vapic", "vpindex", "runtime", "synic", "reset", "frequencies", "tlbflush", "ipi")

ElementTree.register_namespace("berth", NAMESPACE)


def render(record, host: Host):
    """Return the XML text of the record's guest on ``host``."""
    if adopted.of(record.spec):
        return _found(record, host)
    spec, allocation = record.spec, record.resources
    flavor = spec["flavor"]
    settings = GuestSettings.of(spec)
    root = ElementTree.Element("domain", type=host.domain_type)
    child(root, "name", record.uuid)
    child(root, "uuid", record.uuid)
    child(root, "title", record.name)
    root.append(metadata(record))
    _ceiling_of_memory(root, flavor)
    child(root, "memory", flavor["memory_mb"] * MIB, unit="KiB")
    child(root, "currentMemory", flavor["memory_mb"] * MIB, unit="KiB")
    realtime = settings.realtime_cpus(flavor["vcpus"]) or set()
    cells = ((allocation or {}).get("numa_topology") or {}).get("cells") or []
    memory_backing(root, cells, settings, realtime)
    _vcpu(root, flavor)
    cpu_limits(root, flavor.get("extra_specs") or {})
    pinning(root, cells, realtime)
    _firmware(root, host, machine(record, host), settings, record.uuid, bool(_boot_files(spec)))
    _direct_boot(root.find("os"), record, host)
    _ignition(root, record, host)
    _features(root, host, settings, realtime)
    _cpu(root, host, flavor, settings, cells)
    _clock(root, host, settings)
    for event, action in (("poweroff", "destroy"), ("reboot", "restart"), ("crash", "destroy")):
        child(root, "on_" + event, action)
    _devices(child(root, "devices"), record, host, settings)
    if settings.encrypts_memory():
        encrypt(root)
    hardware.place(root, spec)
    return ElementTree.tostring(root, encoding="unicode")


def _ceiling_of_memory(root, flavor):
    """QEMU refuses slots in which nothing would fit."""
    if _grows(flavor):
        child(
            root,
            "maxMemory",
            hot_plug.most(flavor, hot_plug.MAX_MEMORY_MB) * MIB,
            slots=SLOTS,
            unit="KiB",
        )


def _grows(flavor):
    return hot_plug.most(flavor, hot_plug.MAX_MEMORY_MB) > flavor["memory_mb"]


def _vcpu(root, flavor):
    most, now = hot_plug.most(flavor, hot_plug.MAX_VCPUS), flavor["vcpus"]
    child(root, "vcpu", most, placement="static", current=now if now < most else None)


def _found(record, host):
    """Return the definition that an adopted guest was found with, with its files here, the CPUs and memory of its flavor, and
    berth's mark. The mark itself declares its namespace, by which the boot gate knows a guest: elsewhere libvirt would keep that
    after the mark."""
    root = adopted.root_of(record.spec[adopted.KEY])
    root.append(metadata(record))
    _files_here(root, record, host.pool_path)
    _sizes(root, record.spec["flavor"])
    declared = ' xmlns:berth="%s"' % NAMESPACE
    text = ElementTree.tostring(root, encoding="unicode").replace(declared, "", 1)
    return text.replace("<berth:instance", "<berth:instance" + declared, 1)


def _files_here(root, record, pool_path):
    files = {disk.name: paths.instance(pool_path, record.uuid, disk.file) for disk in disks.planned(record.spec)}
    for device in root.iterfind("devices/disk"):
        path = files.get(device.find("target").get("dev"))
        if path:
            device.find("source").set("file", path)
    for log in root.iterfind("devices/*/log"):
        log.set("file", log.get("file") or paths.console_log(record.uuid))
    for variables in root.iterfind("os/nvram"):
        variables.text = files.get(disks.NVRAM.name, variables.text)


def _sizes(root, flavor):
    """Write what a resize changed: what the guest was found with agrees with its flavor."""
    vcpu, memory, now = root.find("vcpu"), root.find("memory"), root.find("currentMemory")
    if int(vcpu.text) != flavor["vcpus"]:
        vcpu.text = str(flavor["vcpus"])
        vcpu.attrib.pop("current", None)
    if -(-int(memory.text) // MIB) != flavor["memory_mb"]:
        for element in (memory, now):
            if element is not None:
                element.text = str(flavor["memory_mb"] * MIB)


def machine(record, host):
    """Return the machine type of the record's guest: the one it was created with, or None: libvirt chooses."""
    return (
        hardware.machine(record.spec)
        or GuestSettings.of(record.spec).get("machine_type")
        or capabilities.default_machine(host.arch)
    )


def metadata(record):
    """Return berth's mark. Its generation is the epoch alone, which changes with the owner, not with every write."""
    element = ElementTree.Element("metadata")
    instance = child(element, "{%s}instance" % NAMESPACE)
    parts = {
        "uuid": record.uuid,
        "name": record.name,
        "project": record.project_id,
        "flavor": record.spec["flavor"]["name"],
        "image": (record.spec.get("image") or {}).get("name", ""),
        "generation": record.generation[0],
    }
    for name, text in parts.items():
        child(instance, "{%s}%s" % (NAMESPACE, name), text)
    copy = {**{name: getattr(record, name) for name in COPIED}, "epoch": record.generation[0]}
    # the hardware is elsewhere in the text, and a guest whose record is restored was started once
    copy["spec"] = {part: value for part, value in volumes.used(record.spec).items() if part != hardware.KEY}
    child(instance, "{%s}record" % NAMESPACE, json.dumps(copy, sort_keys=True))
    return element


def is_uefi(arch, settings, has_kernel):
    return settings.get("firmware_type") == "uefi" or arch in ("aarch64", "riscv64") and not has_kernel


def _firmware(root, host, machine, settings, uuid, has_kernel):
    """Set the firmware. UEFI checks signatures only if the request says so: by default, libvirt picks one that does."""
    uefi = is_uefi(host.arch, settings, has_kernel)
    element = child(root, "os", firmware="efi" if uefi else None)
    child(element, "type", "hvm", arch=host.arch, machine=machine)
    if uefi:
        choices = child(element, "firmware")
        for feature in ("secure-boot", "enrolled-keys"):
            child(choices, "feature", enabled="yes" if settings.secure_boot() else "no", name=feature)
        if settings.secure_boot():
            child(element, "loader", secure="yes")
        child(element, "nvram", nvram.path(host.pool_path, uuid))
    if is_true(settings.get("boot_menu", "false")):
        child(element, "bootmenu", enable="yes", timeout=5000)


def _boot_files(spec):
    """The files that the guest boots directly: none while it is rescued."""
    return [] if rescues.of(spec) else named_boot_files(spec)


def _direct_boot(element, record, host):
    for part in _boot_files(record.spec):
        child(element, part, paths.instance(host.pool_path, record.uuid, part))
    options = (record.spec["image"].get("properties") or {}).get("os_command_line")
    if options and _boot_files(record.spec):
        child(element, "cmdline", options)


def _ignition(root, record, host):
    """Show Ignition its config, of which the definition does not repeat the secrets."""
    if record.spec.get("ignition"):
        element = child(root, "sysinfo", type="fwcfg")
        for name in IGNITION_NAMES:
            child(element, "entry", name=name, file=paths.instance(host.pool_path, record.uuid, seed.IGNITION))


def _features(root, host, settings, realtime):
    element = child(root, "features")
    if host.arch in ("x86_64", "i686"):
        child(element, "acpi")
        child(element, "apic")
        if settings.secure_boot():
            child(element, "smm", state="on")
        if settings.viommu_model() == "intel":
            child(element, "ioapic", driver="qemu")  # the only one that remaps interrupts
    elif host.arch == "aarch64":
        child(element, "acpi")
    if realtime:
        child(element, "pmu", state="off")
    if _has_hyperv(host, settings):
        hyperv = child(element, "hyperv", mode="custom")
        for name in HYPERV:
            child(hyperv, name, state="on")
        child(hyperv, "spinlocks", state="on", retries=8191)


def _has_hyperv(host, settings):
    """Whether the guest sees what Windows uses of Hyper-V. QEMU has it under KVM only."""
    return settings.is_windows() and host.domain_type == "kvm" and host.arch in ("x86_64", "i686")


def _cpu(root, host, flavor, settings, cells):
    """Use host-model under KVM: the host's CPU as far as it can be migrated. TCG has host-model on x86 only. A model that the
    host's settings name is required as it is: libvirt starts no guest with less."""
    topology = settings.cpu_topology(flavor["vcpus"])
    known = host.domain_type == "kvm" or host.arch in ("x86_64", "i686")
    if not (known or topology or cells or host.cpu_model or _grows(flavor)):
        return
    if host.cpu_model:
        element = child(root, "cpu", mode="custom", match="exact", check="partial")
        child(element, "model", host.cpu_model, fallback="forbid")
    else:
        element = child(root, "cpu", mode="host-model" if known else "maximum")
    if topology:
        child(element, "topology", **topology)
    if cells:
        numa = child(element, "numa")
        for index, cell in enumerate(cells):
            cpus = set(cell.get("cpuset") or ()) | set(cell.get("pcpuset") or ())
            child(numa, "cell", id=index, cpus=ranges(cpus), memory=cell["memory_mb"] * MIB, unit="KiB")
    elif _grows(flavor):  # libvirt plugs memory into a cell
        every = ranges(range(hot_plug.most(flavor, hot_plug.MAX_VCPUS)))
        child(child(element, "numa"), "cell", id=0, cpus=every, memory=flavor["memory_mb"] * MIB, unit="KiB")


def _clock(root, host, settings):
    """Windows keeps local time in its clock, as Nova does for it."""
    element = child(root, "clock", offset="localtime" if settings.is_windows() else "utc")
    if host.arch in ("x86_64", "i686"):
        child(element, "timer", name="pit", tickpolicy="delay")
        child(element, "timer", name="rtc", tickpolicy="catchup")
        child(element, "timer", name="hpet", present="no")
    if _has_hyperv(host, settings):
        child(element, "timer", name="hypervclock", present="yes")


def _devices(devices, record, host, settings):
    _disks_and_seed(devices, record, host.pool_path, settings)
    if rescues.of(record.spec):
        _rescue(devices, record, host, settings)
    _scsi_controllers(devices)
    _nics(devices, record, settings)
    _consoles(devices, paths.console_log(record.uuid))
    rng = child(devices, "rng", model="virtio")
    child(rng, "backend", "/dev/urandom", model="random")
    child(child(devices, "memballoon", model="virtio"), "stats", period=10)
    _screen(devices, settings)
    action = settings.get("watchdog_action", "disabled")
    if action != "disabled":
        child(devices, "watchdog", model="i6300esb", action=action)
    if settings.tpm_version():
        _tpm(devices, settings)
    if settings.viommu_model():
        _viommu(devices, settings.viommu_model())
    for device in (record.resources or {}).get("pci_devices") or []:
        if not nics.is_of_nic(device):
            _hostdev(devices, device["address"])
    for vgpu in (record.resources or {}).get("vgpus") or []:
        _vgpu(devices, vgpu["uuid"])


def _disks_and_seed(devices, record, pool, settings):
    uuid, spec = record.uuid, record.spec
    bus = settings.get("disk_bus", "virtio")
    # libvirt has no read-only disks on these two buses.
    cdrom_bus = settings.get("cdrom_bus") or (bus if bus in ("sata", "ide") else None)
    planned = disks.plan(spec)
    data = [disk for disk in planned if disk.kind == disks.DATA]
    own = [disk for disk in planned if disk not in (*data, disks.RESCUE)]
    buses = [bus] * len(own) + [cdrom_bus or bus]
    names = _targets(["virtio"] * bool(volumes.boot(spec)) + buses)[-len(buses) :]
    _volumes(devices, pool, spec, True)
    for disk, name in zip(own, names[:-1]):
        element = _own_disk(devices, paths.instance(pool, uuid, disk.file), disk, name, bus, spec)
        if disk.name == "root":
            child(element, "boot", order=1)
    for disk in data:
        _data_disk(devices, paths.instance(pool, uuid, disk.file), disk, spec)
    _volumes(devices, pool, spec, False)
    element = _disk(
        devices, paths.instance(pool, uuid, seed.FILE), "raw", names[-1], buses[-1], "cdrom" if cdrom_bus else "disk"
    )
    child(element, "readonly")


def _scsi_controllers(devices):
    used = [LETTERS.index(target.get("dev")[-1]) for target in devices.iterfind("disk/target[@bus='scsi']")]
    for index in range(1 + max(used) // DISKS_ON_SCSI) if used else ():
        child(devices, "controller", type="scsi", index=index, model="virtio-scsi")


def _rescue(devices, record, host, settings):
    """Boot from the disk of the rescue: alone, but by UEFI, which forgets its entries of disks that are in no order. It takes a name
    that no other disk has, so that they keep theirs."""
    image = rescues.of(record.spec)["image"]
    is_cdrom = rescues.device(image) == rescues.CDROM
    bus = (image.get("properties") or {}).get("hw_rescue_bus") or (
        _cdrom_bus(machine(record, host), settings) if is_cdrom else settings.get("disk_bus", "virtio")
    )
    taken = {target.get("dev") for target in devices.iterfind("disk/target")}
    uefi = is_uefi(host.arch, settings, has_kernel=False)
    for disk in devices.iterfind("disk"):
        for boot in disk.findall("boot"):
            if uefi:
                boot.set("order", str(int(boot.get("order")) + 1))
            else:
                disk.remove(boot)
    target = next(name for name in (TARGET_PREFIX[bus] + letter for letter in LETTERS) if name not in taken)
    path = paths.instance(host.pool_path, record.uuid, disks.RESCUE.file)
    if is_cdrom:
        element = _disk(devices, path, disks.RESCUE.format, target, bus, rescues.CDROM)
        child(element, "readonly")
    else:
        element = _own_disk(devices, path, disks.RESCUE, target, bus, record.spec)
    child(element, "serial", rescues.SERIAL)
    child(element, "boot", order=1)


def _cdrom_bus(machine_type, settings):
    """As in Nova, the bus for CDs that the machine has built in, or SCSI."""
    built_in = {"q35": "sata", "i440fx": "ide", "pc": "ide"}
    found = (bus for part, bus in built_in.items() if part in (machine_type or "").split("-"))
    return settings.get("cdrom_bus") or next(found, "scsi")


def _nics(devices, record, settings):
    for at, nic in enumerate(record.spec.get("networks") or []):
        if nic["type"] == "direct":
            _card(devices, nic, _device_of(record, at))
        else:
            _interface(devices, nic, record.spec["flavor"], settings, packet_filter.filter_of(record, at))


def added_nic(record, mac):
    """Return the <interface> of one of the record's NICs, for a guest whose definition is its own."""
    at, nic = next((at, nic) for at, nic in enumerate(record.spec["networks"]) if nic["mac"] == mac)
    devices = ElementTree.Element("devices")
    _interface(devices, nic, record.spec["flavor"], {}, packet_filter.filter_of(record, at))
    return devices[0]


def target_of_data(disk):
    return TARGET_PREFIX[disk.bus] + LETTERS[FIRST_DATA + disk.slot]


def _data_disk(devices, path, disk, spec):
    element = _own_disk(devices, path, disk, target_of_data(disk), disk.bus, spec)
    child(element, "serial", disk.serial)
    return element


def target_of(entry):
    """Return the name of a volume's device. It does not depend on the disks beside it, some of which may come and go:
    vdaa for the first slot. libvirt orders disks by it, so the volume that the guest boots from has that of a root
    disk."""
    if entry.get("boot_index") == 0:
        return TARGET_PREFIX["virtio"] + "a"
    return "%sa%s" % (TARGET_PREFIX["virtio"], LETTERS[entry["slot"]])


def _volumes(devices, pool, spec, boots):
    """Add the volume that the guest boots from, or the others."""
    for entry in volumes.of(spec):
        if (entry.get("boot_index") == 0) == boots:
            _volume(devices, pool, entry)


def _volume(devices, pool, entry):
    element = _disk(
        devices, paths.volume_file(pool, entry["uuid"]), volume_files.FORM, target_of(entry), "virtio", "disk"
    )
    child(element, "serial", entry["name"])
    if entry.get("boot_index") is not None:
        child(element, "boot", order=entry["boot_index"] + 1)
    return element


def added_disk(record, host, path):
    """Return the XML text of the data disk or volume at ``path``, as in the definition."""
    element = _added(record, host, path)
    if GuestSettings.of(record.spec).encrypts_memory():
        through_iommu(element)
    return ElementTree.tostring(element, encoding="unicode")


def _added(record, host, path):
    for entry in volumes.of(record.spec):
        if paths.volume_file(host.pool_path, entry["uuid"]) == path:
            return _volume(ElementTree.Element("devices"), host.pool_path, entry)
    data = [disk for disk in disks.plan(record.spec) if disk.kind == disks.DATA]
    files = [paths.instance(host.pool_path, record.uuid, disk.file) for disk in data]
    return _data_disk(ElementTree.Element("devices"), path, data[files.index(path)], record.spec)


def _targets(buses):
    """Return a device name per disk: vda, vdb, ... counted by prefix."""
    counts, names = collections.Counter(), []
    for bus in buses:
        prefix = TARGET_PREFIX[bus]
        names.append(prefix + LETTERS[counts[prefix]])
        counts[prefix] += 1
    return names


def _own_disk(devices, path, disk, target, bus, spec):
    """Add a disk that the flavor's limits are for: no volume, and not the seed."""
    element = _disk(devices, path, disk.format, target, bus, "disk")
    numbers = flavor_limits.of_disk(spec["flavor"].get("extra_specs") or {})
    tune = child(element, "iotune") if numbers else None
    for name, number in numbers.items():
        child(tune, name, number)
    return element


def _disk(devices, path, form, target, bus, device):
    element = child(devices, "disk", type="file", device=device)
    child(element, "driver", name="qemu", type=form, cache="none", discard="unmap" if device == "disk" else None)
    child(element, "source", file=path)
    child(element, "target", dev=target, bus=bus)
    return element


def _device_of(record, at):
    """Return the address of the device that the claim gave to a NIC."""
    claimed = (record.resources or {}).get("pci_devices") or []
    return next(device["address"] for device in claimed if device.get("request_id") == nics.nic_request(at))


def _card(devices, nic, address):
    """Add a function of a network card. libvirt binds it to VFIO and back, and sets its MAC address and VLAN."""
    element = child(devices, "interface", type="hostdev", managed="yes")
    _pci_source(element, address)
    child(element, "mac", address=nic["mac"])
    _vlan(element, nic)


def _vlan(element, nic):
    if nic.get("vlan"):
        child(child(element, "vlan"), "tag", id=nic["vlan"])


def _interface(devices, nic, flavor, settings, packet_filter):
    element = child(devices, "interface", type=nic["type"])
    child(element, "source", **{nic["type"]: nic["source"]})
    child(element, "mac", address=nic["mac"])
    model = nic.get("model") or settings.get("vif_model", "virtio")
    child(element, "model", type=model)
    if model == "virtio" and is_true(settings.get("vif_multiqueue_enabled", "false")) and flavor["vcpus"] > 1:
        child(element, "driver", name="vhost", queues=min(flavor["vcpus"], MAX_QUEUES))
    if nic.get("mtu"):
        child(element, "mtu", size=nic["mtu"])
    _vlan(element, nic)
    if nic.get("virtualport"):
        child(element, "virtualport", type=nic["virtualport"])
    if packet_filter:
        child(element, "filterref", filter=packet_filter)
    ways = flavor_limits.of_nic(flavor.get("extra_specs") or {})
    bandwidth = child(element, "bandwidth") if ways else None
    for way, numbers in ways.items():
        child(bandwidth, way, **numbers)


def _consoles(devices, log):
    serial = child(devices, "serial", type="pty")
    child(serial, "log", file=log, append="on")
    child(serial, "target", port=0)
    console = child(devices, "console", type="pty")
    child(console, "target", type="serial", port=0)
    channel = child(devices, "channel", type="unix")
    child(channel, "target", type="virtio", name=GUEST_AGENT)


def _screen(devices, settings):
    model = settings.get("video_model", "none")
    if model != "none":
        graphics = child(devices, "graphics", type="vnc", autoport="yes")
        child(graphics, "listen", type="address", address="127.0.0.1")
    child(child(devices, "video"), "model", type=model)


def _tpm(devices, settings):
    """Add a TPM, emulated by swtpm. libvirt keeps its state on the host, and removes it when the guest is undefined."""
    element = child(devices, "tpm", model=settings.get("tpm_model", "tpm-tis"))
    child(element, "backend", type="emulator", version=settings.tpm_version())


def _viommu(devices, model):
    """Add a virtual IOMMU like Nova's; guest drivers see 48 bits of addresses."""
    element = child(devices, "iommu", model=model)
    if model == "intel":
        child(element, "driver", intremap="on", caching_mode="on", eim="on", aw_bits=48, iotlb="on")


def _hostdev(devices, address):
    """Add a PCI device "0000:81:00.0". libvirt binds it to VFIO and back."""
    _pci_source(child(devices, "hostdev", mode="subsystem", type="pci", managed="yes"), address, None)


def _vgpu(devices, uuid):
    """Add a mediated device. berth makes it before each start: libvirt does not."""
    element = child(devices, "hostdev", mode="subsystem", type="mdev", managed="no", model="vfio-pci")
    child(child(element, "source"), "address", uuid=uuid)


def _pci_source(element, address, kind="pci"):
    domain, bus, rest = address.split(":")
    slot, function = rest.split(".")
    parts = {"domain": domain, "bus": bus, "slot": slot, "function": function}
    place = {name: "0x" + part for name, part in parts.items()}
    child(child(element, "source"), "address", type=kind, **place)


# All that libvirt keeps for a guest: its domain and the packet filters that the domain names are defined and removed
# together; the mediated devices that the guest was started with are removed with them.


def define_guest(connection, record, host):
    """Define the guest of the record on ``host`` (domain_xml.Host). Return the record with the hardware that libvirt
    chose. The filters come second, so that a domain that berth did not make is found before anything is changed."""
    text = domain.define(connection, record.uuid, render(record, host))
    attached.write(host.pool_path, record)
    packet_filter.define(connection, record)
    return record.replace(spec=hardware.keep(record.spec, text))


def remove_guest(connection, uuid, record=None):
    """End and undefine the guest. Return whether there was anything. libvirt keeps a filter that a guest uses."""
    found = domain.remove(connection, uuid)
    found = mdev.remove(connection, uuid, record) or found
    return packet_filter.remove(connection, uuid) or found
