# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Habits of a random configuration: filters, weights, limits and aggregates."""

from __future__ import annotations

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
