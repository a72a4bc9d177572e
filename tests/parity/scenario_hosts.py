# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Habits of random hosts: sizes, metrics, capabilities, NUMA cells and PCI devices."""

from __future__ import annotations

METRICS = ("cpu.frequency", "cpu.user.percent", "cpu.idle.time", "cpu.percent", "numa.membw.current")
TRAITS = ("HW_CPU_X86_AVX2", "HW_CPU_X86_VMX", "STORAGE_DISK_SSD", "CUSTOM_LICENSED", "CUSTOM_FAST")
CARDS = (("10de", "1db4", "type-PCI"), ("8086", "154d", "type-PF"), ("8086", "10ed", "type-VF"))


def plain_host(draw, number):
    vcpus, level = draw.choice((4, 8, 16, 48)), draw.choice((0, 0, 0.3, 0.6, 0.95))
    memory_mb, local_gb = vcpus * draw.choice((1024, 2048, 4096)), draw.choice((50, 200, 1000))
    ratio = draw.choice((0.5, 1.0, 1.5, 3.7, 16.0))
    host = {
        "host": "h%03d" % number,
        "host_ip": "10.%d.%d.%d" % (draw.randint(0, 1), draw.randint(0, 3), number % 250 + 1),
        "vcpus": vcpus,
        "memory_mb": memory_mb,
        "local_gb": local_gb,
        "cpu_allocation_ratio": ratio,
        "ram_allocation_ratio": draw.choice((0.8, 1.0, 1.0, 1.25)),
        "disk_allocation_ratio": draw.choice((0.5, 1.0, 2.5)),
        "reserved_host_cpus": draw.choice((0, 0, 1)),
        "reserved_host_memory_mb": draw.choice((0, 512, 777)),
        "reserved_host_disk_gb": draw.choice((0, 0, 7)),
        "vcpus_used": int(vcpus * ratio * level),
        "memory_mb_used": int(memory_mb * level * 0.9) // 256 * 256,
        "local_gb_used": int(local_gb * level * 0.5),
        "num_io_ops": draw.choice((0, 0, 1, 3, 7, 9)),
        "failed_builds": draw.choice((0, 0, 0, 2)),
        "hypervisor_type": draw.choice(("QEMU", "QEMU", "qemu")),
        "hypervisor_version": draw.choice((6002000, 8002001, 9001000, 10000000)),
        "supported_instances": [["x86_64", "kvm", "hvm"], ["i686", "qemu", "hvm"]],
        "instances": [{"uuid": draw.uuid()} for _each in range(draw.choice((0, 0, 1, 2, 4)))],
        "traits": sorted(draw.some(TRAITS, 4)),
    }
    host["num_instances"] = len(host["instances"]) + draw.choice((0, 0, 3))
    return host


def broken_services(draw, scenario):
    for host in scenario["hosts"]:
        if draw.maybe(0.15):
            host["service"] = draw.choice(({"disabled": True}, {"up": False}, {"forced_down": True}))


def odd_numbers(draw, scenario):
    """Reserved above total, negative free amounts, nothing at all, nodes with names of their own."""
    for host in scenario["hosts"]:
        if draw.maybe(0.4):
            host.update(
                draw.choice(
                    (
                        {"reserved_host_memory_mb": host["memory_mb"] + 100},
                        {"reserved_host_cpus": host["vcpus"]},
                        {"disk_available_least": draw.choice((-20, 0, 5, 30))},
                        {"free_ram_mb": draw.choice((-512, 0, 100000))},
                        {"free_disk_gb": draw.choice((-3, 0, 77))},
                        {"local_gb": 0, "local_gb_used": 0},
                        {"vcpus": 0, "vcpus_used": 0},
                        {"memory_mb_used": host["memory_mb"] * 2},
                        {"node": host["host"] + "-node"},
                        {"hypervisor_type": "ironic", "supported_instances": []},
                        {"num_io_ops": 0, "num_instances": 0, "instances": []},
                    )
                )
            )
    for host in scenario["hosts"]:
        host["cell"] = draw.choice(("cell1", "cell1", "cell2"))
    scenario["config"]["scheduler"]["max_placement_results"] = draw.choice((1, 3, 1000, 1000, 1000))


def units(draw, scenario):
    """min_unit, max_unit, step_size, reserved, ratios and custom classes of the inventory."""
    for host in scenario["hosts"]:
        inventory = host.setdefault("inventory", {})
        for name, steps in (("VCPU", (1, 2, 4)), ("MEMORY_MB", (1, 256, 1000)), ("DISK_GB", (1, 5, 10))):
            if draw.maybe(0.4):
                inventory[name] = draw.choice(
                    (
                        {"step_size": draw.choice(steps)},
                        {"min_unit": draw.choice(steps), "max_unit": 4 * draw.choice(steps)},
                        {"reserved": draw.choice((0, 2, 10**6))},
                        {"allocation_ratio": draw.choice((0.1, 0.999, 1.001, 33.3))},
                        {"total": draw.choice((1, 7, 10**6)), "max_unit": draw.choice((1, 10**6))},
                        None,
                    )
                )
        for name in ("CUSTOM_LICENCE", "CUSTOM_GOLD"):
            if draw.maybe(0.6):
                inventory[name] = {"total": draw.choice((1, 4, 9)), "allocation_ratio": draw.choice((1.0, 1.5))}
                host.setdefault("placement_used", {})[name] = draw.choice((0, 0, 1, 4))


def capabilities(draw, scenario):
    for host in scenario["hosts"]:
        host["cpu_info"] = {
            "arch": "x86_64",
            "vendor": draw.choice(("Intel", "AMD")),
            "model": draw.choice(("Skylake", "EPYC")),
            "topology": {"cores": draw.choice((2, 8)), "threads": draw.choice((1, 2)), "sockets": 1},
            "features": draw.sample(["aes", "avx", "avx2", "vmx"], 3),
        }
        host["stats"] = {"gpus": draw.choice(("0", "2")), "tier": draw.choice(("gold", "silver")), "load": "0.75"}
        host["supported_instances"] = draw.choice(
            (
                [["x86_64", "kvm", "hvm"], ["i686", "qemu", "hvm"]],
                [["x86_64", "qemu", "hvm"]],
                [["aarch64", "kvm", "hvm"], ["x86_64", "kvm", "hvm"]],
                [["x86_64", "xen", "xen"]],
            )
        )
        for instance in host["instances"]:
            instance["image_props"] = image_words(draw)


def metrics(draw, scenario):
    for host in scenario["hosts"]:
        host["metrics"] = [
            {"name": name, "value": draw.choice((0.1, 0.5, 0.55, 0.99) if "percent" in name else (0, 7, 20, 90))}
            for name in METRICS
            if draw.maybe(0.9)
        ]
    wanted = ["%s=%s" % (name, draw.choice(("1", "-2.5", "0", "0.001", "bad"))) for name in draw.some(METRICS, 4)]
    required = "MetricsFilter" in scenario["config"]["filter_scheduler"]["enabled_filters"] and draw.maybe(0.5)
    scenario["config"]["metrics"] = {
        "weight_setting": wanted,
        "required": required,
        "weight_of_unavailable": draw.choice((-10000.0, 0.0, 5.0)),
        "weight_multiplier": draw.choice((0.0, 1.0, -3.0)),
    }


def image_words(draw):
    words = {}
    if draw.maybe(0.5):
        words["os_distro"] = draw.choice(("ubuntu", "debian", "windows"))
    if draw.maybe(0.4):
        words["hw_machine_type"] = draw.choice(("q35", "pc"))
    if draw.maybe(0.2):
        words["hw_disk_bus"] = draw.choice(("virtio", "scsi"))
    return words


# -- NUMA and PCI
def cells(draw, scenario):
    for host in scenario["hosts"]:
        if draw.maybe(0.9):
            cells_of(draw, host)
    scenario["config"]["compute"] = {"packing_host_numa_cells_allocation_strategy": draw.maybe(0.4)}


def cells_of(draw, host):
    count, threads = draw.choice((1, 2, 2, 3, 4)), draw.choice((1, 2, 2, 4))
    cores = draw.choice((2, 4, 6))
    memory_mb = draw.choice((4096, 8192, 16384))
    numbers = list(range(count * cores * threads))
    style = draw.choice(("cells", "strided"))
    found = []
    for number in range(count):
        size = cores * threads
        mine = numbers[number * size : (number + 1) * size] if style == "cells" else numbers[number::count]
        siblings = [mine[at::cores] for at in range(cores)]
        kind = draw.choice(("shared", "dedicated", "both", "overlap", "none" if count > 1 else "both"))
        half = [cpu for core in siblings[: cores // 2] for cpu in core]
        shared = {"shared": mine, "dedicated": [], "both": half, "overlap": mine, "none": []}[kind]
        pinnable = {"shared": [], "dedicated": mine, "both": sorted(set(mine) - set(half)), "overlap": mine, "none": []}
        pinnable = pinnable[kind]
        pinned = draw.sample(pinnable, draw.randint(0, len(pinnable) // 2)) if draw.maybe(0.5) else []
        found.append(
            {
                "id": number,
                "cpuset": sorted(shared),
                "pcpuset": sorted(pinnable),
                "memory_mb": memory_mb,
                "cpu_usage": draw.choice((0, 0, len(shared), 2 * len(shared))),
                "memory_usage": draw.choice((0, 0, memory_mb // 2, memory_mb)),
                "pinned_cpus": sorted(pinned),
                "siblings": siblings if threads > 1 else [[cpu] for cpu in mine],
                "socket": draw.choice((number // 2, number, 0)),
                "mempages": pages(draw, memory_mb),
            }
        )
        if draw.maybe(0.3):
            found[-1]["network_metadata"] = {
                "physnets": draw.some(("physnet0", "physnet1"), 2),
                "tunneled": draw.maybe(0.5),
            }
    host["numa_topology"] = {"cells": found}
    host["memory_mb"] = memory_mb * count
    host["memory_mb_used"] = draw.choice((0, sum(cell["memory_usage"] for cell in found) // 2))
    host["vcpus"], host["vcpus_used"] = sum(len(cell["cpuset"]) for cell in found), 0
    host["pcpus"] = sum(len(cell["pcpuset"]) for cell in found)
    host["pcpus_used"] = sum(len(cell["pinned_cpus"]) for cell in found)
    if threads > 1 and draw.maybe(0.9):
        host["traits"] = sorted({*host["traits"], "HW_CPU_HYPERTHREADING"})


def pages(draw, memory_mb):
    found = [{"size_kb": 4, "total": memory_mb * 256, "used": draw.choice((0, 0, 1000)), "reserved": 0}]
    for size_kb, total in ((2048, memory_mb // 8), (1048576, memory_mb // 4096)):
        if draw.maybe(0.6):
            used, reserved = draw.choice((0, 0, total // 2, total)), draw.choice((0, 0, 1))
            found.append({"size_kb": size_kb, "total": total, "used": used, "reserved": min(reserved, total - used)})
    draw.shuffle(found)
    return found


def devices(draw, scenario):
    aliases = []
    for name, policy in (("a", None), ("b", "required"), ("c", "preferred"), ("d", "legacy"), ("e", "socket")):
        for vendor, product, kind in draw.sample(CARDS, draw.choice((1, 1, 2))):
            alias = {"name": name, "vendor_id": vendor, "product_id": product, "device_type": kind}
            aliases.append(dict(alias, numa_policy=policy) if policy else alias)
    # An alias is told more than once only with one kind of device and one policy.
    kinds = {}
    aliases = [
        alias for alias in aliases if kinds.setdefault(alias["name"], alias["device_type"]) == alias["device_type"]
    ]
    scenario["config"]["pci"] = {"alias": aliases}
    for host in scenario["hosts"]:
        nodes = [cell["id"] for cell in (host.get("numa_topology") or {"cells": []})["cells"]]
        host["pci_pools"] = []
        for _each in range(draw.choice((0, 1, 3, 5))):
            vendor, product, kind = draw.choice(CARDS)
            pool = {
                "vendor_id": vendor,
                "product_id": product,
                "dev_type": kind,
                "count": draw.choice((0, 1, 2, 3, 40)),
            }
            pool["numa_node"] = draw.choice([*nodes, *nodes, None])
            if kind == "type-VF":
                pool["physical_network"] = draw.choice(("physnet0", "physnet1"))
            if all({**entry, "count": 0} != {**pool, "count": 0} for entry in host["pci_pools"]):
                host["pci_pools"].append(pool)
