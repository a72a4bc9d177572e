# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An example for each filter and weigher: variables of an instance web-1, and what two hosts report.

Where an image comes from is left out. docs/generate.py shows each with what the filter or weigher says of both hosts,
found by running it.
"""

from __future__ import annotations

from typing import NamedTuple

import yaml

from ansible_collections.berth.kvm.plugins.module_utils.model.catalog import Catalog
from ansible_collections.berth.kvm.plugins.module_utils.model.host_state import Aggregate
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.request_spec import RequestSpec
from ansible_collections.berth.kvm.plugins.module_utils.placement import pci, scheduler
from ansible_collections.berth.kvm.plugins.module_utils.placement.base import normalize
from ansible_collections.berth.kvm.plugins.module_utils.placement.request import build_request

HOST = {"vcpus": 4, "memory_mb": 8192, "local_gb": 100, "supported_instances": [["x86_64", "kvm", "hvm"]]}
FLAVOR = {"vcpus": 1, "memory_mb": 2048, "root_gb": 10}
DB = instance_uuid("default", "db-1")
FILE = {"url": "https://images.example.org/a.qcow2", "checksum": "sha256:" + 64 * "0", "disk_format": "qcow2"}
GPU = {"vendor_id": "10de", "product_id": "1db4"}
FREE_CELL = {"id": 0, "cpuset": [0, 1], "pcpuset": [0, 1], "memory_mb": 8192}


class Example(NamedTuple):
    """Options of berth_placement, other variables, and what the hosts k1 and k2 report beside HOST."""

    options: dict = {}
    variables: dict = {}
    k1: dict = {}
    k2: dict = {}


def flavor(**extra_specs):
    specs = {name.replace("__", ":"): value for name, value in extra_specs.items()}
    return {"berth_flavors": {"m": {**FLAVOR, "extra_specs": specs}}}


def aggregate(host, **metadata):
    return {"berth_aggregates": {"special": {"hosts": [host], "metadata": metadata}}}


def image(name="debian", **properties):
    return {"berth_images": {name: {"properties": properties}}}


def group(policy):
    return {"berth_server_groups": {"web": {"policy": policy}}, "berth_server_group": "web"}


def metric(value):
    return {"metrics": [{"name": "cpu.percent", "value": value}]}


WITH_DB = {"instances": [{"uuid": DB, "name": "db-1"}]}
EXAMPLES = {
    "AggregateCoreFilter": Example(
        {}, aggregate("k2", cpu_allocation_ratio="1.0"), {"vcpus_used": 4}, {"vcpus_used": 4}
    ),
    "AggregateDiskFilter": Example({}, aggregate("k2", disk_allocation_ratio="0.5"), {}, {"local_gb_used": 45}),
    "AggregateImagePropertiesIsolation": Example(
        {}, {**aggregate("k2", os_distro="windows"), **image(os_distro="debian")}
    ),
    "AggregateInstanceExtraSpecsFilter": Example(
        {}, {**aggregate("k1", ssd="true"), **flavor(aggregate_instance_extra_specs__ssd="true")}
    ),
    "AggregateIoOpsFilter": Example({}, aggregate("k2", max_io_ops_per_host="2"), {"num_io_ops": 3}, {"num_io_ops": 3}),
    "AggregateMultiTenancyIsolation": Example({}, {**aggregate("k2", filter_tenant_id="blue"), "berth_project": "red"}),
    "AggregateNumInstancesFilter": Example(
        {}, aggregate("k2", max_instances_per_host="2"), {"num_instances": 3}, {"num_instances": 3}
    ),
    "AggregateRamFilter": Example(
        {}, aggregate("k2", ram_allocation_ratio="0.5"), {"memory_mb_used": 3000}, {"memory_mb_used": 3000}
    ),
    "AggregateTypeAffinityFilter": Example({}, aggregate("k2", instance_type="large,huge")),
    "AllHostsFilter": Example(),
    "AvailabilityZoneFilter": Example(
        {}, {**aggregate("k1", availability_zone="east"), "berth_availability_zone": "east"}
    ),
    "ComputeCapabilitiesFilter": Example(
        {},
        flavor(capabilities__hypervisor_version=">= 8000000"),
        {"hypervisor_version": 9001000},
        {"hypervisor_version": 7002000},
    ),
    "ComputeFilter": Example({}, {}, {}, {"service": {"up": False}}),
    "CoreFilter": Example({}, {}, {"vcpus_used": 15}, {"vcpus_used": 16}),
    "DifferentHostFilter": Example({}, {"berth_hints": {"different_host": ["db-1"]}}, {}, WITH_DB),
    "DiskFilter": Example({}, {}, {}, {"local_gb_used": 95}),
    "DumpFilter": Example(),
    "ExactCoreFilter": Example({}, {}, {"vcpus": 1}, {}),
    "ExactDiskFilter": Example({}, {}, {"local_gb": 10}, {}),
    "ExactRamFilter": Example({}, {}, {"memory_mb": 2560}, {}),
    "ImagePropertiesFilter": Example(
        {}, image(hw_architecture="aarch64"), {"supported_instances": [["aarch64", "kvm", "hvm"]]}, {}
    ),
    "IoOpsFilter": Example({"max_io_ops_per_host": 4}, {}, {"num_io_ops": 3}, {"num_io_ops": 4}),
    "IsolatedHostsFilter": Example({"isolated_hosts": ["k2"], "isolated_images": ["secret"]}),
    "JsonFilter": Example({}, {"berth_hints": {"query": '[">=", "$vcpus_total", 8]'}}, {"vcpus": 8}, {}),
    "MetricsFilter": Example({"metrics": {"weight_setting": ["cpu.percent=-1.0"]}}, {}, metric(0.2), {}),
    "NUMATopologyFilter": Example(
        {},
        flavor(hw__cpu_policy="dedicated"),
        {"numa_topology": {"cells": [FREE_CELL]}},
        {"numa_topology": {"cells": [{**FREE_CELL, "pinned_cpus": [0, 1]}]}},
    ),
    "NumInstancesFilter": Example({"max_instances_per_host": 20}, {}, {"num_instances": 19}, {"num_instances": 20}),
    "PciPassthroughFilter": Example(
        {},
        {"berth_pci_aliases": {"gpu": GPU}, **flavor(pci_passthrough__alias="gpu:1")},
        {"pci_pools": [{**GPU, "numa_node": 0, "count": 1}]},
        {},
    ),
    "QueryFilter": Example({}, {"berth_hints": {"query": "vcpus_total >= `8`"}}, {"vcpus": 8}, {}),
    "RamFilter": Example({}, {}, {}, {"memory_mb_used": 6000}),
    "RetryFilter": Example(),
    "SameHostFilter": Example({}, {"berth_hints": {"same_host": ["db-1"]}}, WITH_DB, {}),
    "ServerGroupAffinityFilter": Example({}, group("affinity"), WITH_DB, {}),
    "ServerGroupAntiAffinityFilter": Example({}, group("anti-affinity"), {}, WITH_DB),
    "SimpleCIDRAffinityFilter": Example(
        {},
        {"berth_hints": {"build_near_host_ip": "10.0.1.9", "cidr": "/24"}},
        {"host_ip": "10.0.1.1"},
        {"host_ip": "10.0.2.1"},
    ),
    "TypeAffinityFilter": Example({}, {}, {}, {"instances": [{"uuid": DB, "flavor": {"name": "large"}}]}),
    "BuildFailureWeigher": Example({}, {}, {}, {"failed_builds": 2}),
    "CPUWeigher": Example({"cpu_weight_multiplier": 1.0}, {}, {"vcpus_used": 2}, {"vcpus_used": 10}),
    "CrossCellWeigher": Example(),
    "DiskWeigher": Example({"disk_weight_multiplier": 0.5}, {}, {}, {"local_gb_used": 60}),
    "HeadroomWeigher": Example(
        {
            "headroom_flavor_mix": [
                {"vcpus": 2, "memory_mb": 4096, "share": 70},
                {"vcpus": 4, "memory_mb": 8192, "share": 30},
            ]
        },
        {},
        {"vcpus_used": 12, "memory_mb_used": 3072},
        {},
    ),
    "HypervisorVersionWeigher": Example({}, {}, {"hypervisor_version": 9001000}, {"hypervisor_version": 8002000}),
    "ImagePropertiesWeigher": Example(
        {"image_props_weight_multiplier": 1.0},
        image(os_distro="debian"),
        {"instances": [{"uuid": DB, "image_props": {"os_distro": "debian"}}]},
        {},
    ),
    "IoOpsWeigher": Example({"io_ops_weight_multiplier": -1.0}, {}, {}, {"num_io_ops": 3}),
    "MetricsWeigher": Example(
        {"metrics": {"weight_setting": ["cpu.percent=-1.0"], "required": False}}, {}, metric(0.2), metric(0.9)
    ),
    "NumInstancesWeigher": Example(
        {"num_instances_weight_multiplier": -1.0}, {}, {"num_instances": 1}, {"num_instances": 7}
    ),
    "PCIWeigher": Example({"pci_weight_multiplier": 1.0}, {}, {}, {"pci_pools": [{**GPU, "numa_node": 0, "count": 2}]}),
    "RAMWeigher": Example({"ram_weight_multiplier": -1.0}, {}, {"memory_mb_used": 4096}, {}),
    "ServerGroupSoftAffinityWeigher": Example({}, group("soft-affinity"), WITH_DB, {}),
    "ServerGroupSoftAntiAffinityWeigher": Example({}, group("soft-anti-affinity"), {}, WITH_DB),
}
# Those that refuse no host, and those that weigh only what an inventory does not ask for.
PASS_ALWAYS = ("AllHostsFilter", "DumpFilter", "RetryFilter")
WEIGH_NOTHING = ("CrossCellWeigher",)


def variables(name, kind):
    """The variables of an example as a user would write them."""
    example = EXAMPLES[name]
    names = list(dict.fromkeys(["ComputeFilter", name]))
    placement = {"enabled_filters": names} if kind == "filters" else {}
    if name == "HeadroomWeigher":
        placement = {"weight_classes": [name]}
    placement.update(example.options)
    return {**({"berth_placement": placement} if placement else {}), **example.variables}


def run(name, kind):
    """[(host, what the filter or weigher says of it)]."""
    example, given = EXAMPLES[name], variables(name, kind)
    shared = {"berth_flavors": {"m": FLAVOR}, **image(), **given}
    shared["berth_images"] = {name: {**FILE, **one} for name, one in shared["berth_images"].items()}
    catalog = Catalog.from_variables({key: value for key, value in shared.items() if key not in INSTANCE})
    own = {key: value for key, value in given.items() if key in INSTANCE}
    request, _seed = build_request(
        {"inventory_hostname": "web-1", "berth_flavor": "m", "berth_image": "debian", **own}, catalog
    )
    if request["group"]:
        request["group"]["members"] = [DB]
    options = {**catalog.placement, "pci_alias": list(catalog.pci_aliases)}
    hosts = [{"host": host, **HOST, **getattr(example, host)} for host in ("k1", "k2")]
    aggregates = [Aggregate(one) for one in catalog.aggregate_documents({})]
    scheduler.select_destinations(hosts, [request], options, aggregates, check_policies=False)
    filters, weighers, options = scheduler.load(options)
    plugin = next(one for one in filters + weighers if one.name == name)
    spec = scheduler.prepare(RequestSpec.from_dict(request), pci.read_aliases(options["pci_alias"]))
    states = scheduler.host_states(hosts, aggregates)
    if spec.instance_group:
        spec.instance_group.hosts = {one.host for one in states if DB in one.instances}
    if kind == "filters":
        found = [plugin.check(one, spec) for one in states]
        return [
            (one.host, ": ".join(filter(None, ("passes" if said.passed else "fails", said.reason))))
            for one, said in zip(states, found)
        ]
    raw = plugin.weigh(states, spec)
    scaled = normalize(raw, plugin.minval, plugin.maxval)
    return [
        (one.host, "%.6g, normalised %.4g, times %g" % (value, part, plugin.multiplier(one)))
        for one, value, part in zip(states, raw, scaled)
    ]


INSTANCE = ("berth_hints", "berth_project", "berth_server_group", "berth_availability_zone")


def section(name, kind):
    """The part of a page that shows the example."""
    given = variables(name, kind)
    lines = ["## Example", ""]
    if given:
        lines += ["```yaml", yaml.safe_dump(given, sort_keys=False, default_flow_style=False).rstrip(), "```", ""]
    lines += ["| host | reports | %s |" % ("verdict" if kind == "filters" else "weight"), "| --- | --- | --- |"]
    for host, said in run(name, kind):
        facts = yaml.safe_dump(getattr(EXAMPLES[name], host), default_flow_style=True, width=1000).strip()
        lines.append("| %s | %s | %s |" % (host, "`%s`" % facts if facts != "{}" else "", said.replace("|", "\\|")))
    return "\n".join(lines) + "\n"
