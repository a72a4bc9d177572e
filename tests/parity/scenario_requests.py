# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Habits of random requests: flavors, hints, extra specs, images, groups and what they need of a host."""

from __future__ import annotations

import json

from scenario_hosts import TRAITS, image_words


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
            # The oracle's own model of Placement takes traits without an amount; Placement does not.
            specs.update({"trait1:" + draw.choice(TRAITS): "required", "resources1:CUSTOM_GOLD": "1"})


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
        kept = {_word(key) for key in draw.some(sorted(specs), 2)}
        request["flavor"]["extra_specs"] = {key: value for key, value in specs.items() if _word(key) in kept}
        hints = request["scheduler_hints"]
        request["scheduler_hints"] = {key: hints[key] for key in draw.some(sorted(hints), 1)}
        if request["image"]:
            props = request["image"]["properties"]
            request["image"]["properties"] = {key: props[key] for key in draw.some(sorted(props), 1)}
        if "availability_zone" in request and draw.maybe(0.7):
            del request["availability_zone"]


def _word(key):
    """The part of an extra spec that is kept or dropped; a numbered group is kept whole."""
    return key.split(":")[0].replace("trait1", "resources1")


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
