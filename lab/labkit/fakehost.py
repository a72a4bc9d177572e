# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fake hardware for a real libvirtd: the sysfs and procfs files that describe a machine of the size that was asked for.

The sysfs part becomes the upper layer of an overlay over the host's /sys, the procfs part is mounted over two files.
CPU and memory topology: Documentation/ABI/stable/sysfs-devices-system-cpu and -node; PCI: testing/sysfs-bus-pci.
"""

from __future__ import annotations

import os
from pathlib import Path

RESERVED_KIB = 200 * 1024  # of each cell's memory, shown as used by the host itself


def write_fake_hardware(sys_upper, proc, size):
    tree = Tree(sys_upper)
    cells = split_cells(size)
    write_cpus(tree, size, cells)
    write_cells(tree, size, cells)
    devices = PciBus(tree)
    write_network_card(devices, size)
    write_gpus(devices, size)
    proc.mkdir(parents=True, exist_ok=True)
    (proc / "meminfo").write_text(meminfo(Path("/proc/meminfo").read_text(), size))
    (proc / "cpuinfo").write_text(cpuinfo(Path("/proc/cpuinfo").read_text(), size))


def split_cells(size):
    """The CPUs of each NUMA cell: [[0, 1], [2, 3]]."""
    per_cell = size.cpus // size.cells
    return [list(range(cell * per_cell, (cell + 1) * per_cell)) for cell in range(size.cells)]


def cpu_list(cpus):
    """[0, 1, 2, 5] -> '0-2,5', the kernel's list format."""
    ranges = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join("%d" % first if first == last else "%d-%d" % (first, last) for first, last in ranges)


def cpu_mask(cpus):
    """[0, 33] -> '00000002,00000001', the kernel's bitmap format: words of 32 bits, the highest first."""
    bits = sum(1 << cpu for cpu in cpus)
    words = []
    while bits or not words:
        words.append("%08x" % (bits & 0xFFFFFFFF))
        bits >>= 32
    return ",".join(reversed(words))


class Tree:
    """Files and links below a directory."""

    def __init__(self, root):
        self.root = Path(root)

    def file(self, path, content):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            target.write_bytes(content)
        else:
            target.write_text("%s\n" % content)

    def files(self, directory, contents):
        for name, content in contents.items():
            self.file(os.path.join(directory, name), content)

    def link(self, path, target):
        """A relative link, as sysfs has them; both are paths below the root."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.path.relpath(self.root / target, place.parent))


def write_cpus(tree, size, cells):
    base = "devices/system/cpu"
    everyone = cpu_list(range(size.cpus))
    tree.files(base, {"online": everyone, "present": everyone, "possible": everyone, "kernel_max": 8191})
    for cell, members in enumerate(cells):
        for cpu in members:
            core = (cpu - members[0]) // size.threads
            first = members[0] + core * size.threads
            siblings = range(first, first + size.threads)
            topology = {"core_id": core, "physical_package_id": cell, "die_id": 0, "cluster_id": 0}
            for names, group in (
                (("thread_siblings", "core_cpus"), siblings),
                (("core_siblings", "package_cpus", "die_cpus"), members),
            ):
                for name in names:
                    topology[name] = cpu_mask(group)
                    topology[name + "_list"] = cpu_list(group)
            tree.files("%s/cpu%d/topology" % (base, cpu), topology)
            tree.link("%s/cpu%d/node%d" % (base, cpu, cell), "devices/system/node/node%d" % cell)
            if cpu:  # the first CPU of an x86 machine cannot be taken offline and has no such file
                tree.file("%s/cpu%d/online" % (base, cpu), 1)


def write_cells(tree, size, cells):
    base = "devices/system/node"
    everyone = cpu_list(range(size.cells))
    tree.files(base, {name: everyone for name in ("online", "possible", "has_memory", "has_normal_memory", "has_cpu")})
    total = size.mem * 1024 // size.cells
    free = total - size.huge * 2048 - RESERVED_KIB // size.cells
    for cell, members in enumerate(cells):
        node = "%s/node%d" % (base, cell)
        kib = {"MemTotal": total, "MemFree": free, "MemUsed": total - free}
        pages = {"HugePages_Total": size.huge, "HugePages_Free": size.huge, "HugePages_Surp": 0}
        lines = ["Node %d %-15s%9d kB" % (cell, name + ":", value) for name, value in kib.items()]
        lines += ["Node %d %-15s%6d" % (cell, name + ":", value) for name, value in pages.items()]
        distances = ["10" if other == cell else "21" for other in range(size.cells)]
        tree.files(
            node,
            {
                "cpulist": cpu_list(members),
                "cpumap": cpu_mask(members),
                "meminfo": "\n".join(lines),
                "distance": " ".join(distances),
            },
        )
        for cpu in members:
            tree.link("%s/cpu%d" % (node, cpu), "devices/system/cpu/cpu%d" % cpu)
        for kib_per_page, count in ((2048, size.huge), (1048576, 0)):
            directory = "%s/hugepages/hugepages-%dkB" % (node, kib_per_page)
            tree.files(directory, {"nr_hugepages": count, "free_hugepages": count, "surplus_hugepages": 0})
    if size.huge:
        count = size.huge * size.cells
        counters = {"nr_hugepages": count, "free_hugepages": count, "nr_hugepages_mempolicy": count}
        counters.update(surplus_hugepages=0, resv_hugepages=0, nr_overcommit_hugepages=0)
        tree.files("kernel/mm/hugepages/hugepages-2048kB", counters)


class PciBus:
    """PCI functions on bus 0, each in an IOMMU group of its own."""

    def __init__(self, tree):
        self.tree = tree
        self.next_group = 10

    def add(self, address, vendor, product, device_class, numa_node, **extra):
        """One function -> its directory below /sys; extra attributes become files."""
        directory = "devices/pci0000:00/" + address
        self.tree.files(
            directory,
            {
                "config": self._config(vendor, product, device_class),
                "vendor": "0x%04x" % vendor,
                "device": "0x%04x" % product,
                "subsystem_vendor": "0x%04x" % vendor,
                "subsystem_device": "0x0001",
                "class": "0x%06x" % device_class,
                "revision": "0x01",
                "numa_node": numa_node,
                "irq": 0,
                "enable": 1,
                "resource": "\n".join(["0x%016x 0x%016x 0x%016x" % (0, 0, 0)] * 13),
                "modalias": "pci:v%08Xd%08Xsv%08Xsd00000001bc%02Xsc%02Xi%02X"
                % (vendor, product, vendor, device_class >> 16, device_class >> 8 & 255, device_class & 255),
                "uevent": "PCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:0001\nPCI_SLOT_NAME=%s"
                % (device_class, vendor, product, vendor, address),
                **extra,
            },
        )
        self.tree.link(directory + "/subsystem", "bus/pci")
        self.tree.link("bus/pci/devices/" + address, directory)
        group = "kernel/iommu_groups/%d" % self.next_group
        self.next_group += 1
        self.tree.file(group + "/type", "DMA")
        self.tree.link("%s/devices/%s" % (group, address), directory)
        self.tree.link(directory + "/iommu_group", group)
        return directory

    @staticmethod
    def _config(vendor, product, device_class):
        space = bytearray(256)
        space[0:2] = vendor.to_bytes(2, "little")
        space[2:4] = product.to_bytes(2, "little")
        space[9:12] = device_class.to_bytes(3, "little")
        return bytes(space)


def write_network_card(bus, size):
    """An SR-IOV network card (Intel 82599) with its virtual functions dealt out over the cells."""
    if not size.vfs:
        return
    counts = {
        "sriov_totalvfs": size.vfs,
        "sriov_numvfs": size.vfs,
        "sriov_offset": 1,
        "sriov_stride": 1,
        "sriov_vf_device": "10ed",
    }
    card = bus.add("0000:00:10.0", 0x8086, 0x10FB, 0x020000, 0, **counts)
    for number in range(size.vfs):
        slot, function = divmod(number + 1, 8)
        function_directory = bus.add(
            "0000:00:%02x.%d" % (0x10 + slot, function), 0x8086, 0x10ED, 0x020000, number % size.cells
        )
        bus.tree.link(function_directory + "/physfn", card)
        bus.tree.link("%s/virtfn%d" % (card, number), function_directory)


def write_gpus(bus, size):
    """NVIDIA T4 cards, dealt out over the cells."""
    for number in range(size.gpus):
        bus.add("0000:00:%02x.0" % (0x18 + number), 0x10DE, 0x1EB8, 0x030200, number % size.cells)


def meminfo(real, size):
    """The machine's /proc/meminfo with the numbers of the size."""
    total, huge = size.mem * 1024, size.huge * size.cells
    free = total - huge * 2048 - RESERVED_KIB
    kib = {
        "MemTotal": total,
        "MemFree": free,
        "MemAvailable": free,
        "Hugetlb": huge * 2048,
        "Buffers": 10240,
        "Cached": 102400,
    }
    pages = {"HugePages_Total": huge, "HugePages_Free": huge}
    lines = []
    for line in real.splitlines():
        name = line.partition(":")[0]
        if name in kib:
            line = "%-16s%8d kB" % (name + ":", kib[name])
        elif name in pages:
            line = "%-16s%8d" % (name + ":", pages[name])
        lines.append(line)
    return "\n".join(lines) + "\n"


def cpuinfo(real, size):
    """The machine's first CPU in /proc/cpuinfo, as often as the size has CPUs."""
    model = real.split("\n\n")[0].splitlines()
    blocks = []
    for cell, members in enumerate(split_cells(size)):
        for cpu in members:
            values = {
                "processor": cpu,
                "physical id": cell,
                "siblings": len(members),
                "core id": (cpu - members[0]) // size.threads,
                "cpu cores": len(members) // size.threads,
                "apicid": cpu,
                "initial apicid": cpu,
            }
            block = []
            for line in model:
                label = line.partition(":")[0]
                block.append("%s: %s" % (label, values[label.strip()]) if label.strip() in values else line)
            blocks.append("\n".join(block))
    return "\n\n".join(blocks) + "\n\n"
