# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random scenarios of combinations that are rare elsewhere, in the format that answer.py reads.

A profile is a list of habits; each habit is a function that adds its words to hosts, configuration or requests. The
same seed, size and profile always give the same scenario. Usage levels are drawn so that most requests find a host.
"""

from __future__ import annotations

import json
import random
import uuid

NOVA_FILTERS = (
    "ComputeFilter ComputeCapabilitiesFilter ImagePropertiesFilter ServerGroupAntiAffinityFilter "
    "ServerGroupAffinityFilter AggregateImagePropertiesIsolation AggregateInstanceExtraSpecsFilter AggregateIoOpsFilter "
    "AggregateMultiTenancyIsolation AggregateNumInstancesFilter AggregateTypeAffinityFilter AllHostsFilter "
    "DifferentHostFilter SameHostFilter SimpleCIDRAffinityFilter IoOpsFilter NumInstancesFilter IsolatedHostsFilter "
    "JsonFilter MetricsFilter NUMATopologyFilter PciPassthroughFilter"
).split()
MULTIPLIERS = (
    "ram cpu disk io_ops num_instances hypervisor_version build_failure pci soft_affinity soft_anti_affinity "
    "cross_cell_move image_props"
).split()
NOT_NEGATIVE = ("pci", "soft_affinity", "soft_anti_affinity")
METRICS = ("cpu.frequency", "cpu.user.percent", "cpu.idle.time", "cpu.percent", "numa.membw.current")
TRAITS = ("HW_CPU_X86_AVX2", "HW_CPU_X86_VMX", "STORAGE_DISK_SSD", "CUSTOM_LICENSED", "CUSTOM_FAST")
CARDS = (("10de", "1db4", "type-PCI"), ("8086", "154d", "type-PF"), ("8086", "10ed", "type-VF"))
EMPTY_CELL = {"cpuset": [], "pcpuset": []}


class Draw(random.Random):
    def maybe(self, share):
        return self.random() < share

    def some(self, items, most):
        items = list(items)
        return self.sample(items, self.randint(0, min(most, len(items))))

    def uuid(self):
        return str(uuid.UUID(int=self.getrandbits(128), version=4))


# -- hosts
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


# -- configuration
def all_filters(draw, scenario):
    names = list(NOVA_FILTERS)
    draw.shuffle(names)
    scenario["config"]["filter_scheduler"]["enabled_filters"] = names


def some_filters(draw, scenario):
    scenario["config"]["filter_scheduler"]["enabled_filters"] = draw.sample(NOVA_FILTERS, draw.randint(1, 22))


def weights(draw, scenario):
    told = scenario["config"]["filter_scheduler"]
    for name in MULTIPLIERS:
        if draw.maybe(0.6):
            value = draw.choice((0.0, 1.0, -1.0, 1e-6, 1e9, -2.5, 0.333))
            told[name + "_weight_multiplier"] = abs(value) if name in NOT_NEGATIVE else value
    told["image_props_weight_setting"] = draw.choice(([], ["os_distro=2", "hw_disk_bus=-1"], ["nothing=1"]))
    if draw.maybe(0.3):
        told["host_subset_size"] = draw.choice((2, 3, 100))
    elif draw.maybe(0.4):
        told["shuffle_best_same_weighed_hosts"] = True
    for number in range(draw.randint(0, 4)):
        metadata = {
            draw.choice(MULTIPLIERS) + "_weight_multiplier": draw.choice(("-1.0", "0", "1e3", "bad", "0.5", " 2 ", ""))
            for _each in range(draw.randint(1, 4))
        }
        if draw.maybe(0.3):
            metadata["metrics_weight_multiplier"] = draw.choice(("-1", "5"))
        aggregate(draw, scenario, "weights%d" % number, metadata)


def limits(draw, scenario):
    told = scenario["config"]["filter_scheduler"]
    told["max_io_ops_per_host"] = draw.choice((0, 4, 8, 8, 8))
    told["max_instances_per_host"] = draw.choice((1, 8, 8, 50))
    for number in range(draw.randint(0, 3)):
        key = draw.choice(("max_io_ops_per_host", "max_instances_per_host"))
        aggregate(draw, scenario, "limit%d" % number, {key: draw.choice(("0", "2", "9", "-1", "1.5", "x"))})


def isolation(draw, scenario):
    told, names = scenario["config"]["filter_scheduler"], [host["host"] for host in scenario["hosts"]]
    told["isolated_hosts"] = draw.some(names, 3)
    told["isolated_images"] = draw.choice(([], ["isolated"]))
    told["restrict_isolated_hosts_to_isolated_images"] = draw.maybe(0.5)
    told["aggregate_image_properties_isolation_namespace"] = draw.choice((None, None, "os", "hw"))
    told["aggregate_image_properties_isolation_separator"] = draw.choice((".", "_"))
    if draw.maybe(0.3):
        told["image_properties_default_architecture"] = "x86_64"
    scenario["config"]["scheduler"].update(
        enable_isolated_aggregate_filtering=draw.maybe(0.5),
        limit_tenants_to_placement_aggregate=draw.maybe(0.4),
        placement_aggregate_required_for_tenants=draw.maybe(0.1),
        image_metadata_prefilter=draw.maybe(0.2),
        query_placement_for_image_type_support=draw.maybe(0.1),
    )
    for host in scenario["hosts"]:
        host["traits"] = sorted(
            {
                *host["traits"],
                *draw.some(("COMPUTE_STORAGE_BUS_VIRTIO", "COMPUTE_STORAGE_BUS_SCSI", "COMPUTE_IMAGE_TYPE_QCOW2"), 3),
            }
        )
    for number, metadata in enumerate(
        (
            {"availability_zone": "az1"},
            {"availability_zone": "az2", "os_distro": "debian,ubuntu", "os_secure_boot": "x"},
            {"filter_tenant_id": "p1", "filter_tenant_id_2": "p2"},
            {"filter_tenant_id": "p2, p3"},
            {"trait:CUSTOM_LICENSED": "required", "trait:CUSTOM_FAST": draw.choice(("required", "forbidden"))},
            {"instance_type": draw.choice(("small", "small,medium", " large , small "))},
            {"ssd": "true", "tier": "gold,silver", "speed": "10"},
            {"ssd": "false", "tier": "gold", "speed": "25,abc"},
            {"hw_machine_type": "q35", "hw_disk_bus": "virtio"},
        )
    ):
        if draw.maybe(0.5):
            aggregate(draw, scenario, "isolation%d" % number, metadata)


def aggregate(draw, scenario, name, metadata):
    share = draw.choice((0.2, 0.5, 0.5, 0.9))
    hosts = [host["host"] for host in scenario["hosts"] if draw.maybe(share)]
    scenario["aggregates"].append({"name": name, "hosts": hosts, "metadata": metadata})


# -- requests
def plain_request(draw, number):
    vcpus = draw.choice((1, 1, 2, 3, 4, 6))
    return {
        "flavor": {
            "name": draw.choice(("small", "medium", "large")),
            "vcpus": vcpus,
            "memory_mb": vcpus * draw.choice((256, 512, 1024)),
            "root_gb": draw.choice((0, 0, 1, 5, 20)),
            "ephemeral_gb": draw.choice((0, 0, 3)),
            "swap": draw.choice((0, 0, 100, 1024)),
            "extra_specs": {},
        },
        "image": {"id": draw.choice(("one", "two")), "properties": {}},
        "num_instances": draw.choice((1, 1, 1, 2, 4)),
        "project_id": draw.choice(("p1", "p2", "p9")),
        "scheduler_hints": {},
    }


def targets(draw, scenario):
    hosts = scenario["hosts"] or [{"host": "nowhere"}]
    for request in scenario["requests"]:
        if draw.maybe(0.25):
            host = draw.choice(hosts)
            name, node = host["host"], host.get("node", host["host"])
            cell = host.get("cell", "cell1")
            request.update(
                draw.choice(
                    (
                        {"ignore_hosts": [entry["host"] for entry in draw.some(hosts, 6)]},
                        {"ignore_hosts": [name.upper(), "unknown"]},
                        {"force_hosts": [name]},
                        {"force_nodes": [node]},
                        {"force_hosts": [name], "force_nodes": [node]},
                        {"force_hosts": ["unknown"]},
                        {"requested_destination": {"host": name}},
                        {"requested_destination": {"host": name, "node": node}, "ignore_hosts": [name]},
                        {"requested_destination": {"cell": cell, "allow_cross_cell_move": draw.maybe(0.5)}},
                        {"is_bfv": True},
                        {"image": None, "is_bfv": True},
                    )
                )
            )


def zones_and_projects(draw, scenario):
    for request in scenario["requests"]:
        if draw.maybe(0.3):
            request["availability_zone"] = draw.choice(("az1", "az2", "nova"))
        if draw.maybe(0.3):
            request["image"]["properties"].update(image_words(draw))
        if draw.maybe(0.2):
            request["image"]["id"] = "isolated"
        if draw.maybe(0.2):
            specs = (("ssd", "true"), ("tier", "<or> gold <or> tin"), ("speed", "10"), ("tier", "s>= gold"))
            key, value = draw.choice(specs + (("ssd", "<in> al"), ("tier", "<all-in> o l"), ("none", "x")))
            request["flavor"]["extra_specs"]["aggregate_instance_extra_specs:" + key] = value
        for trait in draw.some(TRAITS, 2) if draw.maybe(0.3) else ():
            request["flavor"]["extra_specs"]["trait:" + trait] = draw.choice(("required", "required", "forbidden"))


def classes(draw, scenario):
    """Amounts of resource classes named in the flavor, in numbered groups too."""
    for request in scenario["requests"]:
        specs = request["flavor"]["extra_specs"]
        if draw.maybe(0.5):
            for key in draw.some(
                ("resources:CUSTOM_LICENCE", "resources:CUSTOM_GOLD", "resources1:CUSTOM_GOLD", "resources_x:VCPU"), 3
            ):
                specs[key] = draw.choice(("0", "1", "2", "5"))
        if draw.maybe(0.3):
            specs[draw.choice(("resources:VCPU", "resources:MEMORY_MB", "resources:DISK_GB"))] = draw.choice("0248")
        if draw.maybe(0.2):
            specs["group_policy"] = draw.choice(("none", "isolate"))
        if draw.maybe(0.1):
            specs["trait1:" + draw.choice(TRAITS)] = "required"


NUMBERS = (
    "free_ram_mb free_disk_mb vcpus_total vcpus_used num_io_ops num_instances hypervisor_version failed_builds".split()
)


def queries(draw, scenario):
    for request in scenario["requests"]:
        if draw.maybe(0.5):
            text = json.dumps(query(draw, 3))
            request["scheduler_hints"]["query"] = text
        if draw.maybe(0.3):
            request["scheduler_hints"].update(
                build_near_host_ip=draw.choice(("10.0.0.9", "10.1.2.3")), cidr=draw.choice(("/8", "/16", "/24", "/31"))
            )


def query(draw, depth):
    if depth and draw.maybe(0.5):
        word = draw.choice(("and", "or", "not"))
        return [word, *(query(draw, depth - 1) for _each in range(draw.randint(0, 3)))]
    kind = draw.choice(("number", "number", "number", "text", "in", "missing"))
    if kind == "text":
        return ["=", draw.choice(("$hypervisor_type", "$stats.tier", "$host")), draw.choice(("QEMU", "gold", "h001"))]
    if kind == "in":
        return ["in", "$" + draw.choice(("host", "stats.tier", "num_io_ops")), "h000", "h002", "gold", 0, 1]
    if kind == "missing":
        return [draw.choice(("<", "=", "in")), "$stats.nothing", 4]
    numbers = draw.sample((0, 1, 4, 2048, 8192, 7002000), draw.choice((1, 1, 2)))
    return [draw.choice(("<", ">", "<=", ">=", "=")), "$" + draw.choice(NUMBERS), *numbers]


def operators(draw, scenario):
    texts = ("s== gold", "s!= gold", "s< h", "s<= gold", "s> a", "s>= silver", "<in> ol", "<all-in> g d", "gold")
    texts += ("<or> gold <or> silver", "<or> silver", "<in>", "s==", "", " gold")
    numbers = ("= 8", ">= 8", "<= 8", "== 8", "!= 8", ">= 8.0", "8", "= -1", "<or> 8 <or> 2", "s== 8", "<in> 8")
    paths = (
        ("cpu_info:topology:cores", numbers),
        ("vcpus_total", numbers),
        ("free_ram_mb", ("= 4096", "<= 4096", "!= 0")),
        ("hypervisor_version", (">= 8000000", "== 9001000", "<= 8002001", "9001000")),
        ("stats:load", ("= 0.5", "<= 0.75", "== 0.75", "0.75")),
        ("gpus", ("= 1", "== 0", "!= 2", "0", "s== 2")),
        ("tier", texts),
        ("cpu_info:vendor", ("Intel", "<in> nte", "s!= AMD", "<or> AMD")),
        ("cpu_info:features", ("<in> avx2", "<all-in> aes avx", "s!= x")),
        ("cpu_info:topology:nothing", ("x",)),
        ("metrics", ("<in> cpu",)),
        ("host", ("h000", "<or> h001 <or> h002", "s>= h002")),
    )
    for request in scenario["requests"]:
        for path, words in draw.some(paths, 2):
            scope = draw.choice(("capabilities:", "capabilities:", "", "other:"))
            request["flavor"]["extra_specs"][scope + path] = draw.choice(words)
        props = request["image"]["properties"] if request["image"] else {}
        if draw.maybe(0.3):
            key, word = draw.choice(
                (
                    ("hw_architecture", "x86_64"),
                    ("hw_architecture", "aarch64"),
                    ("hw_architecture", "amd64"),
                    ("img_hv_type", "kvm"),
                    ("img_hv_type", "QEMU"),
                    ("img_hv_type", "xen"),
                    ("hw_vm_mode", "hvm"),
                    ("hw_vm_mode", "xen"),
                    ("architecture", "i686"),
                    ("hypervisor_type", "kvm"),
                )
            )
            props[key] = word
            if draw.maybe(0.5):
                props["img_hv_requested_version"] = draw.choice((">=8.2.1", "<=9.1", "==10.0", "!=8.2.1", ">6, <10"))
        if draw.maybe(0.2):
            props["traits_required"] = draw.sample(TRAITS, 1)


def groups(draw, scenario):
    existing = [instance["uuid"] for host in scenario["hosts"] for instance in host["instances"]]
    for number in range(6):
        policy = draw.choice(("affinity", "anti-affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"))
        rules = {"max_server_per_host": draw.choice(("1", "2", "3", "9"))} if draw.maybe(0.5) else {}
        group = {"uuid": draw.uuid(), "name": "g%d" % number, "policy": policy, "members": draw.some(existing, 3)}
        scenario["groups"].append(dict(group, rules=rules if policy == "anti-affinity" else {}))
        if draw.maybe(0.2) and scenario["hosts"]:
            scenario["groups"][-1]["hosts"] = [draw.choice(scenario["hosts"])["host"]]
    for request in scenario["requests"]:
        if draw.maybe(0.5):
            request["group"] = draw.choice(scenario["groups"])["uuid"]
            request["num_instances"] = draw.choice((1, 1, 2, 5, 9))
        if existing and draw.maybe(0.2):
            hint = draw.choice(("same_host", "different_host"))
            request["scheduler_hints"][hint] = draw.choice((draw.choice(existing), draw.sample(existing, 1), [], "x"))


def pinned(draw, scenario):
    for request in scenario["requests"]:
        if draw.maybe(0.75):
            numa_words(draw, request["flavor"], request["image"]["properties"] if request["image"] else {})


def numa_words(draw, flavor, props):
    specs, vcpus, memory_mb = flavor["extra_specs"], flavor["vcpus"], flavor["memory_mb"]
    nodes = draw.choice((0, 0, 1, 2, 3))
    if nodes and vcpus % nodes == 0 and memory_mb % nodes == 0:
        specs["hw:numa_nodes"] = str(nodes)
    elif vcpus >= 3 and draw.maybe(0.3):
        part = memory_mb // 4
        specs.update({"hw:numa_nodes": "2", "hw:numa_cpus.0": "0,2", "hw:numa_mem.0": str(part)})
        rest = ",".join(str(cpu) for cpu in range(vcpus) if cpu not in (0, 2))
        specs.update({"hw:numa_cpus.1": rest, "hw:numa_mem.1": str(memory_mb - part)})
    policy = draw.choice((None, "shared", "dedicated", "dedicated", "mixed"))
    if policy == "mixed" and vcpus > 1:
        specs["hw:cpu_policy"] = "mixed"
        specs["hw:cpu_dedicated_mask"] = draw.choice(("0", "^0", "1-%d" % (vcpus - 1), "0-%d" % (vcpus - 2)))
    elif policy and policy != "mixed":
        specs["hw:cpu_policy"] = policy
    if policy == "dedicated":
        if draw.maybe(0.6):
            specs["hw:cpu_thread_policy"] = draw.choice(("prefer", "isolate", "require"))
        if draw.maybe(0.3):
            specs["hw:emulator_threads_policy"] = draw.choice(("isolate", "share"))
        if vcpus > 1 and draw.maybe(0.2):
            specs.update({"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"})
    if draw.maybe(0.4):
        specs["hw:mem_page_size"] = draw.choice(("small", "large", "any", "2048", "2MB", "1GB", "4"))
        if specs["hw:mem_page_size"] in ("any", "large") and draw.maybe(0.3):
            props["hw_mem_page_size"] = draw.choice(("2048", "4"))
    if draw.maybe(0.1):
        specs["hw:mem_encryption"] = "false"


def cards(draw, scenario):
    names = sorted({alias["name"] for alias in scenario["config"]["pci"]["alias"]})
    for request in scenario["requests"]:
        if draw.maybe(0.6):
            chosen = draw.sample(names, draw.choice((1, 1, 2)))
            counts = [draw.choice((1, 1, 2, 3)) for _each in chosen]
            specs = request["flavor"]["extra_specs"]
            specs["pci_passthrough:alias"] = ", ".join("%s:%d" % entry for entry in zip(chosen, counts))
            if draw.maybe(0.3):
                specs["hw:pci_numa_affinity_policy"] = draw.choice(("required", "preferred", "legacy", "socket"))
        if draw.maybe(0.15):
            request["network_metadata"] = {
                "physnets": draw.some(("physnet0", "physnet1"), 1),
                "tunneled": draw.maybe(0.4),
            }


NEEDS = (
    ("hw:virtio_packed_ring", "true", "COMPUTE_NET_VIRTIO_PACKED"),
    ("hw:ephemeral_encryption", "true", "COMPUTE_EPHEMERAL_ENCRYPTION"),
    ("hw:sound_model", "virtio", "COMPUTE_SOUND_MODEL_VIRTIO"),
    ("hw:tpm_version", "2.0", "COMPUTE_SECURITY_TPM_2_0"),
    ("hw:tpm_version", "1.2", "COMPUTE_SECURITY_TPM_1_2"),
    ("hw:mem_encryption", "true", "HW_CPU_X86_AMD_SEV"),
    ("hw:maxphysaddr_mode", "emulate", "COMPUTE_ADDRESS_SPACE_EMULATED"),
    ("hw:locked_memory", "true", "COMPUTE_ACCELERATORS"),
    ("os:secure_boot", "required", "COMPUTE_SECURITY_UEFI_SECURE_BOOT"),
    ("accel:device_profile", "fpga", "COMPUTE_ACCELERATORS"),
    ("resources:PCPU", "2", "COMPUTE_SECURITY_TPM_TIS"),
    ("resources:VCPU", "2", "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER"),
    ("trait:HW_CPU_HYPERTHREADING", "required", "HW_CPU_HYPERTHREADING"),
    ("trait:HW_CPU_HYPERTHREADING", "forbidden", "COMPUTE_SECURITY_TPM_CRB"),
    ("hw:cpu_realtime", "yes", "COMPUTE_SOCKET_PCI_NUMA_AFFINITY"),
    ("hw:pmem", "2GB", "COMPUTE_IMAGE_TYPE_RAW"),
    ("hw:tpm_model", "tpm-crb", "COMPUTE_IMAGE_TYPE_QCOW2"),
)


def needs(draw, scenario):
    """Extra specs that stand for a trait of the host, and images of other formats."""
    for host in scenario["hosts"]:
        host["traits"] = sorted({*host["traits"], *(trait for _key, _value, trait in NEEDS if draw.maybe(0.9))})
        host.setdefault("inventory", {})["MEM_ENCRYPTION_CONTEXT"] = {"total": draw.choice((1, 3))}
    for request in scenario["requests"]:
        for key, value, _trait in draw.some(NEEDS, 2):
            (request["flavor"]["extra_specs"])[key] = value
        if request["image"]:
            request["image"]["disk_format"] = draw.choice(("qcow2", "raw", "iso", "vhd"))
            if draw.maybe(0.2):
                request["image"]["properties"].update(
                    draw.choice(
                        (
                            {"hw_firmware_type": "uefi", "hw_firmware_stateless": "true"},
                            {"hw_virtio_packed_ring": "true"},
                            {"hw_tpm_version": "2.0", "hw_tpm_model": "tpm-crb"},
                            {"hw_mem_encryption": "true", "hw_firmware_type": "uefi", "hw_machine_type": "q35"},
                            {"hw_video_model": "virtio", "hw_vif_model": "e1000"},
                        )
                    )
                )
    scenario["config"]["scheduler"].update(
        query_placement_for_image_type_support=draw.maybe(0.3), image_metadata_prefilter=draw.maybe(0.3)
    )


def few_words(draw, scenario):
    """Of every request only a few of its parts, so that some hosts remain."""
    for request in scenario["requests"]:
        specs = request["flavor"]["extra_specs"]
        kept = {key.split(":")[0] for key in draw.some(sorted(specs), 2)}
        request["flavor"]["extra_specs"] = {key: value for key, value in specs.items() if key.split(":")[0] in kept}
        hints = request["scheduler_hints"]
        request["scheduler_hints"] = {key: hints[key] for key in draw.some(sorted(hints), 1)}
        if request["image"]:
            props = request["image"]["properties"]
            request["image"]["properties"] = {key: props[key] for key in draw.some(sorted(props), 1)}
        if "availability_zone" in request and draw.maybe(0.7):
            del request["availability_zone"]


def zero_flavors(draw, scenario):
    for request in scenario["requests"]:
        if draw.maybe(0.3):
            request["flavor"].update(draw.choice(({"root_gb": 0, "ephemeral_gb": 0, "swap": 0}, {"root_gb": 10**6})))


def rebuilds(draw, scenario):
    for request in scenario["requests"]:
        if draw.maybe(0.1) and scenario["hosts"]:
            host = draw.choice(scenario["hosts"])
            request["scheduler_hints"]["_nova_check_type"] = ["rebuild"]
            request["requested_destination"] = {"host": host["host"], "node": host.get("node", host["host"])}
            request.update(num_instances=1, force_hosts=[host["host"]], force_nodes=[host.get("node", host["host"])])


BASE = (some_filters, broken_services)
PROFILES = {
    "all": (
        all_filters, capabilities, metrics, isolation, limits, weights, cells, devices, groups,
        zones_and_projects, operators, pinned, cards, queries, targets, few_words,
    ),
    "any": (
        *BASE, capabilities, metrics, isolation, limits, weights, cells, devices, units, groups, zones_and_projects,
        operators, pinned, cards, queries, targets, classes, needs, few_words,
    ),
    "words": (*BASE, capabilities, operators, queries),
    "weights": (*BASE, capabilities, metrics, limits, weights, groups),
    "isolation": (*BASE, isolation, weights, zones_and_projects, targets),
    "odd": (*BASE, odd_numbers, zero_flavors, targets, groups, rebuilds, weights),
    "needs": (*BASE, needs, cells, pinned, few_words),
    "units": (*BASE, units, classes, groups, targets),
    "cells": (all_filters, cells, pinned, groups),
    "devices": (all_filters, cells, devices, pinned, cards),
    "bare": (*BASE, devices, cards, targets, cells, pinned),
    "crowd": (*BASE, limits, groups, weights),
}  # fmt: skip


def generate(seed, hosts, requests, profile):
    """A scenario of a profile; a share of the hosts are twins, so that ties are frequent."""
    draw = Draw("%s/%s/%s/%s" % (seed, hosts, requests, profile))
    if profile == "odd":
        hosts = draw.choice((0, 1, 2, hosts, hosts, hosts))
    elif profile in ("all", "any"):
        hosts *= 3  # so many rules leave few of them
    scenario = {
        "profile": profile,
        "config": {"filter_scheduler": {}, "scheduler": {}},
        "aggregates": [],
        "groups": [],
        "hosts": [plain_host(draw, number) for number in range(hosts)],
        "requests": [plain_request(draw, number) for number in range(requests)],
    }
    for habit in PROFILES[profile]:
        habit(draw, scenario)
    for number in range(1, hosts):
        if draw.maybe(0.3):
            own = scenario["hosts"][number]
            twin = json.loads(json.dumps(scenario["hosts"][draw.randrange(number)]))
            twin.update({name: own[name] for name in ("host", "host_ip", "instances")})
            twin.pop("node", None)
            scenario["hosts"][number] = twin
    return scenario
