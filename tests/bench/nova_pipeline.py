# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nova's own scheduler in process, for placement.py to measure against; runs in a Python that has Nova installed.

Every line on stdin is a job {hosts, requests, decisions, several}: hosts and requests as placement takes them, how many
decisions to make, and whether the instances are those of one request (``several``), for which Nova shortens its list of
hosts from one to the next. Every line on stdout is {chosen: [host], seconds: [CPU seconds of each decision]}. A decision
is SchedulerManager._get_sorted_hosts() and _consume_selected_host(), with the default filters and weighers; there is no
Placement, no message bus and no database, which favours Nova.
"""

import gc
import json
import logging
import sys
import time
import uuid

import nova.conf
from nova import objects
from nova.pci import stats as pci_stats
from nova.scheduler import host_manager, manager
from oslo_utils import timeutils


class Hosts(host_manager.HostManager):
    """Nova's HostManager with nothing to read from a database."""

    def __init__(self):
        super().__init__()
        self.weighers.sort(key=lambda entry: type(entry).__name__)  # sums in the same order everywhere

    def refresh_cells_caches(self):
        pass

    def _init_aggregates(self):
        pass

    def _init_instance_info(self, computes_by_cell=None):
        pass


class Scheduler(manager.SchedulerManager):
    """Nova's scheduler without the services around it."""

    def __init__(self):  # pylint: disable=super-init-not-called
        self.host_manager = Hosts()


def state_of(document):
    state = host_manager.HostState(document["host"], document["host"], "cell1")
    state.uuid = document["host"]
    state.total_usable_ram_mb = document["memory_mb"]
    state.free_ram_mb = document["memory_mb"] - document["memory_mb_used"] - document["reserved_host_memory_mb"]
    state.total_usable_disk_gb = document["local_gb"]
    state.disk_mb_used = document["local_gb_used"] * 1024
    state.free_disk_mb = (document["local_gb"] - document["local_gb_used"]) * 1024
    state.vcpus_total, state.vcpus_used = document["vcpus"], document["vcpus_used"]
    state.cpu_allocation_ratio = document["cpu_allocation_ratio"]
    state.ram_allocation_ratio = state.disk_allocation_ratio = 1.0
    state.num_instances, state.num_io_ops = document["num_instances"], document["num_io_ops"]
    state.failed_builds = document["failed_builds"]
    state.hypervisor_type, state.hypervisor_version = "QEMU", document["hypervisor_version"]
    state.supported_instances = document["supported_instances"]
    state.pci_stats = pci_stats.PciDeviceStats(None)
    state.metrics = objects.MonitorMetricList(objects=[])
    state.service = {"disabled": False, "last_seen_up": timeutils.utcnow(), "host": document["host"]}
    return state


def spec_of(request, members, placed):
    flavor = request["flavor"]
    spec = objects.RequestSpec(
        flavor=objects.Flavor(
            name=flavor["name"],
            flavorid=flavor["name"],
            vcpus=flavor["vcpus"],
            memory_mb=flavor["memory_mb"],
            root_gb=flavor["root_gb"],
            ephemeral_gb=0,
            swap=0,
            extra_specs={},
        ),
        image=objects.ImageMeta.from_dict({"id": str(uuid.uuid4()), "properties": request["image"]["properties"]}),
        project_id="p",
        user_id="u",
        availability_zone=None,
        num_instances=1,
        is_bfv=False,
        numa_topology=None,
        pci_requests=objects.InstancePCIRequests(requests=[]),
        ignore_hosts=None,
        force_hosts=None,
        force_nodes=None,
        requested_destination=None,
        scheduler_hints={},
        limits=objects.SchedulerLimits(),
        instance_group=None,
    )
    if request.get("group"):
        group = request["group"]
        spec.instance_group = objects.InstanceGroup(
            uuid=str(uuid.uuid4()),
            name=group["name"],
            policy=group["policy"],
            policies=[group["policy"]],
            rules={},
            members=members,
            hosts=sorted({placed[member] for member in members if member in placed}),
        )
    return spec


def run(job):
    scheduler = Scheduler()
    states = [state_of(host) for host in job["hosts"]]
    groups, placed, chosen, seconds = {}, {}, [], []
    spec, hosts = None, states
    gc.collect()
    for number in range(job["decisions"]):
        if spec is None or not job["several"]:
            request = job["requests"][number]
            name = str(uuid.uuid4())
            members = groups.setdefault(request["group"]["uuid"] if request.get("group") else name, [])
            members.append(name)
            spec, hosts = spec_of(request, list(members), placed), states
        else:
            name = str(uuid.uuid4())
        spec.instance_uuid = name
        start = time.process_time()
        hosts = scheduler._get_sorted_hosts(spec, hosts, number if job["several"] else 0)
        best = hosts[0]
        scheduler._consume_selected_host(best, spec, instance_uuid=name)
        seconds.append(time.process_time() - start)
        best.instances.setdefault(name, objects.Instance(uuid=name))
        placed[name] = best.host
        chosen.append(best.host)
    return {"chosen": chosen, "seconds": seconds}


def main():
    logging.basicConfig(level=logging.WARNING)
    nova.conf.CONF([], project="nova", default_config_files=[])
    nova.conf.CONF.set_override("service_down_time", 10**6)
    nova.conf.CONF.set_override("track_instance_changes", False, group="filter_scheduler")
    objects.register_all()
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
