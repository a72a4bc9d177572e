# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module host_facts."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_facts
short_description: Gather the state of a KVM host for placement
version_added: 0.1.0
description:
  - Returns everything that the placement of instances must know about a KVM host, as in Nova's HostState.
  - Domains that this collection did not make count against the capacity and are listed as foreign.
  - No call waits for a QEMU process, so a guest that hangs does not delay the facts.
    Such a guest is listed in RV(ansible_facts.berth_host.warnings).
options:
  timeout:
    description: Seconds within which libvirt must answer. Otherwise the module fails with the code V(LibvirtTimeout).
    type: int
    default: 30
  about:
    description: The UUIDs of the instances to recall the whereabouts of, in RV(notes).
    type: list
    elements: str
    default: []
    version_added: 1.0.0
  digests:
    description: Whether RV(digests) is returned too.
    type: bool
    default: false
    version_added: 1.0.0
  heard_of:
    description: Whether RV(heard_of) is returned too.
    type: bool
    default: false
    version_added: 1.0.0
  looks:
    description: Whether RV(looks) is returned too, for the instances in O(about), or for all instances if that is empty.
    type: bool
    default: false
    version_added: 1.0.0
  moves:
    description: Whether RV(moves) is returned too, so that a resize or a migration reads a host in one run.
    type: bool
    default: false
    version_added: 1.0.0
  addresses:
    description:
      - Whether RV(addresses) is returned too. Guests with an agent and without any other known address are asked, for 10 s at most.
    type: bool
    default: false
    version_added: 1.0.0
  domains:
    description: Whether RV(domains) is returned too, for the playbook C(berth.kvm.adopt).
    type: bool
    default: false
    version_added: 1.0.0
  checkup:
    description: Whether RV(checkup) is returned too, for the playbook C(berth.kvm.doctor).
    type: bool
    default: false
    version_added: 1.0.0
  fix:
    description: Whether to repair those findings of O(checkup) that can be repaired safely. A storage pool is set to start with
      the host, a permit without a
      record is removed; guests, disks and records are not touched.
    type: bool
    default: false
    version_added: 1.0.0
  attached:
    description: Whether RV(attached) is returned too, for the instances in O(about).
    type: bool
    default: false
    version_added: 1.0.0
extends_documentation_fragment:
  - berth.kvm.host
  - berth.kvm.host.facts
seealso:
  - module: berth.kvm.placement
notes:
  - Reads the settings in C(/etc/berth/host.json), which the role P(berth.kvm.kvm_host#role) writes.
    A host without them is reported with the defaults and RV(ansible_facts.berth_host.prepared) is V(false).
  - Numbers whose names end in C(_mb) are MiB, those in C(_gb) GiB.
"""

EXAMPLES = r"""
- name: Gather the state of all KVM hosts
  hosts: kvm_hosts
  gather_facts: false
  tasks:
    - name: Gather the host state
      berth.kvm.host_facts:

    - name: Show what is left
      ansible.builtin.debug:
        msg: "{{ ansible_facts.berth_host.free_ram_mb }} MiB, {{ ansible_facts.berth_host.free_disk_gb }} GiB"
"""

RETURN = r"""
moves:
  description:
    - The record of each instance, and where its guest is. Plain data without secrets.
    - The roles that move instances plan with it.
  returned: with O(moves)
  type: list
  elements: dict
  sample: [{uuid: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a, name: web-1, role: OWN, phase: resized, running: true}]
addresses:
  description: An address, with its source, of each instance that the host owns, if one is known. The sources are tried in this
    order. The fixed address (C(static)), libvirt's leases (C(lease)), the host's neighbours (C(arp)), the guest's
    agent (C(agent)).
  returned: with O(addresses)
  type: dict
  sample: {0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a: {address: 192.0.2.11, source: static}}
awaited:
  description:
    - The running instances of which no address is known yet, and of which the host will know one, since a network of libvirt's gives
      leases, or the guest has an agent.
  returned: with O(addresses)
  type: list
  elements: str
  sample: [0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a]
domains:
  description: The guests of the host that are no instances, with their disks, and what is in the way of adopting them. Sizes are
    in bytes, C(memory_mb) in MiB.
  returned: with O(domains)
  type: list
  elements: dict
  sample:
    - uuid: 5f0c1f7d-9d0b-4a1c-8d7f-1e2a0b7f9a52
      name: web1
      state: running
      vcpus: 2
      memory_mb: 2048
      disks: [{target: vda, path: /var/lib/libvirt/images/web1.qcow2, format: qcow2, size: 21474836480}]
      in_the_way: [{code: HasSnapshots, said: "libvirt has noted snapshots of it. Delete them with virsh snapshot-delete"}]
checkup:
  description:
    - The problems that this host finds on itself as C(findings), each with C(code), C(severity), the text C(said), the C(uuid) of its
      instance and whether it was C(fixed); its C(clock), in seconds since 1970; and its C(notes) about all instances.
  returned: with O(checkup)
  type: dict
  sample: {clock: 1800000000.0, findings: [], notes: {}}
looks:
  description:
    - The instances about which C(berth.kvm.create) has nothing to do if the inventory says what their records say. They were made, are
      in no move, and nobody changed their definitions in libvirt or their packet filters. What cannot be determined is left out.
    - For each whether its guest is on or off as its record says (C(converged)), whether its definition could be compared and its
      seed is there (C(compared)), digests of the rules of its packet filters by MAC address (C(filters)), at which address it is
      reached (C(address)), and what M(berth.kvm.instance) returns as C(instance).
  returned: with O(looks)
  type: list
  elements: dict
  sample:
    - uuid: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a
      converged: true
      compared: true
      filters: {"02:00:00:00:00:01": 1f0a2b3c4d5e}
      address: 192.0.2.10
      instance: {uuid: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a, name: web-1, state: running, vm_state: active, role: OWN}
attached:
  description:
    - Those of the instances in O(about) whose disks are in a pool of this host and belong to another, such as on shared storage. C(owner)
      is the uuid of that host; C(volumes) and C(nics) are the volumes and addresses that the instance has, if that is kept there.
  returned: with O(attached), unless the storage could not be read
  type: list
  elements: dict
  sample: [{"uuid": "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a", "owner": "11111111-3c6e-5d59-9d0b-3a1c9d7f1e2a", "nics": [],
            "volumes": [{"name": "db", "size_gb": 20, "delete_on_termination": false, "slot": 0}]}]
heard_of:
  description: The UUIDs of all instances of which the host remembers anything.
  returned: with O(heard_of)
  type: list
  elements: str
  sample: [0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a]
digests:
  description:
    - Digests of the host's notes on which host owns which instance, by the first two digits of the instances' UUIDs. If a digest
      equals that of the run, these instances need not be sent to the host.
    - With V(plans) it also remembers plans.
  returned: with O(digests)
  type: dict
  sample: {"0b": 1c6ee4b0a2a4f3c0e5d59d0b3a1c9d7f}
members:
  description: Which hosts belong to the fleet, as this host was told last, by their UUIDs. Each has its inventory name, null
    for one that was removed, and how often that changed.
  returned: success
  type: dict
  sample: {4c4c4544-0042-3510-8052-b4c04f4a3233: {name: kvm2, changes: 1}}
notes:
  description:
    - What the host remembers about the instances in O(about), if anything. C(known) is the last host that reported itself as the owner,
      C(planned) are the hosts on which a run planned to create it, C(after) is the epoch after which the next owner begins, C(gone) is the
      generation in which this host itself removed it, and C(left) that in which a move took it away from this host.
  returned: with O(about)
  type: dict
  sample:
    0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a:
      known: {"host": kvm2, "host_uuid": 4c4c4544-0042-3510-8052-b4c04f4a3233, "generation": [1, 7]}
      planned: []
      after: 0
      gone: null
      left: null
ansible_facts:
  description: Facts to add to ansible_facts.
  returned: success
  type: dict
  contains:
    berth_host:
      description: The host state document.
      type: dict
      returned: success
      contains:
        schema:
          description: The version of this document.
          type: int
          sample: 1
        collection_version:
          description: The version of the collection that made it.
          type: str
          sample: 0.1.0
        uuid:
          description: libvirt's uuid of the host, pinned when the host was prepared.
          type: str
          sample: e083fc1c-e230-5e1e-a5ea-175f6b4c38fe
        generation:
          description:
            - Grows with each change of the state, so that the later of two documents has the higher one.
            - V(0) on a host that is not prepared.
          type: int
          sample: 17
        state:
          description:
            - Which state directory the host has, and how often it became or ceased to be an instance's owner (C(serial)).
            - C(fault) says why nothing that the directory says counts, such as that it is not mounted; null where it does.
          type: dict
          sample: {"id": 5f0c1f7d6a6b4c5d8e9f00112233aabb, "serial": 12, "fault": null}
        registry:
          description: >-
            The registry that the host belongs to, which incarnation of it, and the highest revision of it that the host has seen. It
            takes claims, builds and moves only from runs over that registry.
          returned: if it belongs to one
          type: dict
          sample: {"kind": etcd, "incarnation": 5f0c1f7d6a6b4c5d8e9f00112233aabb, "revision": 4711}
        prepared:
          description: Whether the role kvm_host has run on this host.
          type: bool
          sample: true
        host:
          description: The name that the host gives itself. The controller goes by the inventory name.
          type: str
          sample: kvm1
        node:
          description: The same as RV(ansible_facts.berth_host.host), a host is one node.
          type: str
          sample: kvm1
        hypervisor_hostname:
          description: The name that libvirt gives the host.
          type: str
          sample: kvm1
        hypervisor_type:
          description: libvirt's name of its driver.
          type: str
          sample: QEMU
        hypervisor_version:
          description: Version of QEMU, as major * 1000000 + minor * 1000 + release.
          type: int
          sample: 7002022
        libvirt_version:
          description: Version of libvirt, counted likewise.
          type: int
          sample: 9000000
        host_ip:
          description: The address by which other hosts reach this one, null where it has none.
          type: str
          sample: 192.0.2.11
        vcpus:
          description: CPUs for shared use.
          type: int
          sample: 16
        vcpus_used:
          description: Shared vCPUs of all instances and foreign domains.
          type: int
          sample: 12
        pcpus:
          description: CPUs for pinned use.
          type: int
          sample: 0
        pcpus_used:
          description: CPUs that are pinned.
          type: int
          sample: 0
        memory_mb:
          description: Memory of the host.
          type: int
          sample: 3934
        memory_mb_used:
          description: Memory of all instances and foreign domains, running or not, without what is reserved.
          type: int
          sample: 128
        free_ram_mb:
          description: RV(ansible_facts.berth_host.memory_mb) without what is used and reserved. May be negative.
          type: int
          sample: 3294
        local_gb:
          description: Size of the file system of the instances' pool.
          type: int
          sample: 18
        local_gb_used:
          description: Virtual sizes of the disks there.
          type: int
          sample: 2
        free_disk_gb:
          description: RV(ansible_facts.berth_host.local_gb) without what is used and reserved. May be negative.
          type: int
          sample: 16
        disk_available_least:
          description: What is physically free, less what the disks may still grow by.
          type: int
          sample: 7
        reserved_host_cpus:
          description: CPUs kept for the host.
          type: int
          sample: 0
        reserved_host_memory_mb:
          description: Memory kept for the host.
          type: int
          sample: 512
        reserved_host_disk_gb:
          description: Disk space kept for the host.
          type: int
          sample: 0
        cpu_allocation_ratio:
          description: How many shared vCPUs may be given out for each CPU.
          type: float
          sample: 4.0
        ram_allocation_ratio:
          description: The same for memory.
          type: float
          sample: 1.0
        disk_allocation_ratio:
          description: The same for disk space.
          type: float
          sample: 1.0
        service:
          description: Whether the host takes new instances.
          type: dict
          sample: {"disabled": false, "disabled_reason": "", "up": true}
        drained:
          description: >-
            Why the host was drained for maintenance, by whom and when, and whether it was booted since. It takes no instance
            until it is returned.
          type: dict
          returned: while it is drained
          sample: {"reason": new disks, "by": anna, "at": "2026-03-01T09:00:00Z", "rebooted": false}
        num_instances:
          description: Number of instances and foreign domains.
          type: int
          sample: 2
        num_io_ops:
          description: Number of instances that are being built, resized or moved.
          type: int
          sample: 0
        failed_builds:
          description: Builds that failed of late. Halves with each hour. A build that works sets it to V(0), and so does
            C(forget_failed_builds) of M(berth.kvm.host_prepare).
          type: int
          sample: 0
        failed_build_age_s:
          description: How many seconds ago the last of them failed. If the host was restarted since, how long it has been up.
          returned: when failed_builds is not V(0)
          type: int
          sample: 2100
        domain_types:
          description: Domain types that work, the best first.
          type: list
          elements: str
          sample: [kvm, qemu]
        machine_types:
          description: Machine types of the host's architecture.
          type: list
          elements: str
          sample: [pc, q35]
        guest_cpu:
          description: The CPU of guests of the best domain type. C(model) is the one that the host's settings name and its guests get, null
            for C(host-model); C(usable) has the models that they could get.
          type: dict
          returned: when guests can run
          sample: {"model": null, "usable": [Haswell, Nehalem, qemu64]}
        firmware:
          description: The UEFI firmware of the host in the order in which libvirt takes it. C(machines) has patterns of machine types,
            C(secure_boot) says whether signatures are checked, C(variables) is the form in which it keeps its variables. A guest
            goes only to a host whose firmware keeps them as its own are kept.
          type: list
          elements: dict
          sample:
            - machines: [pc-i440fx-*, pc-q35-*]
              secure_boot: false
              variables: raw-540672-authenticated
        supported_instances:
          description: Architecture, hypervisor type and VM mode of the guests that can run.
          type: list
          elements: list
          sample: [[x86_64, kvm, hvm]]
        cpu_info:
          description: The CPU of the host, with the keys C(arch), C(model), C(vendor), C(topology) and C(features).
          type: dict
          sample: {"arch": "x86_64", "features": ["aes"], "model": "EPYC", "topology": {"cells": 1}, "vendor": "AMD"}
        traits:
          description: Nova's traits, from the CPU that guests see, the devices they can have, and the host's settings.
          type: list
          elements: str
          sample: [COMPUTE_STORAGE_BUS_VIRTIO, HW_CPU_X86_AVX2]
        metrics:
          description: How busy the host is. Names ending in C(.percent) and those beginning with C(psi) are parts of 1.
          type: list
          elements: dict
          sample: [{"name": "cpu.percent", "value": 0.12}]
        numa_topology:
          description: The NUMA cells, null where the host has none.
          type: dict
          sample:
            cells:
              - id: 0
                socket: 0
                cpuset: [0, 1]
                pcpuset: []
                pinned_cpus: []
                siblings: [[0], [1]]
                cpu_usage: 0
                memory_mb: 3934
                memory_usage: 0
                mempages: [{"reserved": 0, "size_kb": 4, "total": 1007104, "used": 0}]
                distances: {"0": 10}
                network_metadata: null
        pci_devices:
          description: All PCI devices except bridges. C(available) are those that the settings offer and that are not in use.
          type: list
          elements: dict
          sample:
            - {"address": "0000:81:10.1", "available": true, "dev_type": "type-VF", "iommu_group": 11, "numa_node": 0,
               "parent": "0000:81:00.0", "product_id": "10ed", "used_by": null, "vendor_id": "8086"}
        pci_pools:
          description: The available PCI devices, counted by kind and NUMA node.
          type: list
          elements: dict
          sample: [{"count": 3, "dev_type": "type-VF", "numa_node": 0, "product_id": "10ed", "vendor_id": "8086"}]
        encrypted_guests:
          description: Guests whose memory AMD SEV encrypts, how many may run and how many are claimed; absent where none may.
          type: dict
          returned: where the host has AMD SEV
          sample: {"total": 59, "used": 1}
        custom_resources:
          description: Resources that C(berth_host_custom_resources) declares, how much the host has of each and how much instances have
            claimed. Absent where none is declared or claimed.
          type: dict
          returned: where there are some
          sample: {"CUSTOM_LICENSE": {"total": 4, "used": 1}}
        stats:
          description: What C(berth_host_stats) says of the host, for ComputeCapabilitiesFilter and JsonFilter.
          type: dict
          returned: where there are some
          sample: {"tier": "gold"}
        mdev_types:
          description: The types of mediated devices that can be made.
          type: list
          elements: dict
          sample: [{"available": 16, "name": "GRID T4-1B", "parent": "0000:af:00.0", "type": "nvidia-222"}]
        vgpus:
          description:
            - The GPUs that offer vGPUs of a type which the settings enable, with the total number of each, and how many are claimed
              or were made by others.
          type: list
          elements: dict
          returned: where the settings enable a type that a GPU has
          sample: [{"parent": "0000:af:00.0", "total": 16, "type": "nvidia-222", "used": 3}]
        bridges:
          description: The bridges. Placement leaves the host out for an instance with a NIC on another one.
          type: list
          elements: str
          sample: [br0]
        networks:
          description: The active networks of libvirt.
          type: list
          elements: str
          sample: [default]
        network_filters:
          description: The network filters of libvirt.
          type: list
          elements: str
          sample: [clean-traffic]
        ovs_bridges:
          description: The bridges of Open vSwitch.
          type: list
          elements: str
          sample: [ovsbr0]
        vlan_bridges:
          description: The bridges that give NICs a VLAN of their own.
          type: list
          elements: str
          sample: [br0]
        bridge_links:
          description: Of each bridge its MTU in bytes, and whether one of its ports is a network card, or stands on one.
          type: dict
          sample: {br0: {mtu: 1500, uplink: true}}
        packet_filters:
          description: What the packets of guests can be filtered by, C(addresses) and, for security groups, C(ports).
          type: list
          elements: str
          sample: [addresses, ports]
        pool:
          description: The pool whose file system RV(ansible_facts.berth_host.local_gb) is about.
          type: str
          sample: berth
        pools:
          description:
            - The active storage pools. C(promised_gb) is the sum of the virtual sizes of all disks on the pool's file system,
              C(owed_gb) what they may still grow by. C(images_mb) is what the cached images in the pool take.
            - Pools with one C(storage) lie on one file system and share its space.
          type: dict
          sample:
            berth:
              capacity_gb: 18
              free_gb: 9
              free_mb: 9216
              owed_gb: 2
              images_mb: 512
              path: /var/lib/libvirt/berth
              promised_gb: 2
              storage: berth
              type: dir
        instances:
          description: The instances, in every role, and the domains without a record, which are C(foreign). Of these C(managed) says
            whether the collection made the domain. C(generation) is that of the record. An instance whose record cannot be
            read is C(foreign), too, and C(damaged) says why.
          type: list
          elements: dict
          sample:
            - uuid: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a
              name: web-1
              project_id: default
              role: OWN
              generation: [1, 7]
              phase: active
              vm_state: stopped
              task_state: null
              power_state: shutdown
              foreign: false
              flavor: {"name": "m1.tiny", "vcpus": 1, "memory_mb": 64, "root_gb": 1}
              group: null
              image_props: {}
              vcpus: 1
              pcpus: 0
              memory_mb: 64
              disk_gb: 1
              pool: null
              nics: ["MAC address 02:00:00:00:00:01", "address 192.0.2.10 on bridge br0"]
              disks: {"logs": 10}
              unfiltered: ["02:00:00:00:00:01"]
              request_digests: {"image": "1f0a2b3c4d5e", "networks": "6a7b8c9d0e1f"}
        damaged_volumes:
          description: Why the record of a volume cannot be read, by the uuid of the volume. It counts as there.
          type: dict
          returned: when there is one
          sample: {"66f05e8b-4d9b-5ee4-8f5b-cd1d4a3d6bb2": "its checksum is that of another content"}
        volumes:
          description: The volumes of the host, and the instance that has each (C(uuid) and C(name)), or null.
          type: list
          elements: dict
          sample:
            - uuid: 2f3c0d8e-9a71-5b1c-8a55-0f6f0d3f7c11
              name: db
              project_id: default
              size_gb: 20
              pool: berth
              instance: {uuid: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a, name: web-1}
              role: OWN
              phase: active
        failed_instances:
          description: The instances that are in C(vm_state) error since this host failed to build them, and why.
          type: list
          elements: dict
          sample:
            - uuid: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a
              name: web-1
              project_id: default
              code: DiskExists
              message: there is a disk already
        warnings:
          description: What a person should look at, such as guests that hang.
          type: list
          elements: str
          sample: []
"""

import contextlib
import time

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute import connection
from ..module_utils.compute.disk import attached
from ..module_utils.compute.disk.differences import reported_missing
from ..module_utils.compute.errors import failing
from ..module_utils.compute.guest import adoptable, settled
from ..module_utils.compute.guest.addresses import awaited, of_instances
from ..module_utils.compute.host import doctor, facts
from ..module_utils.compute.host.host import Host
from ..module_utils.compute.move.onlooker import Onlooker
from ..module_utils.compute.move.steps.common import view_of
from ..module_utils.compute.record import failed_instances, store, whereabouts
from ..module_utils.model.errors import BerthError
from ..module_utils.model.messages import BESIDE_FACTS

SPEC = {
    "timeout": {"type": "int", "default": 30},
    "about": {"type": "list", "elements": "str", "default": []},
    "heard_of": {"type": "bool", "default": False},
    **{part: {"type": "bool", "default": False} for part in BESIDE_FACTS},
}


def views():
    """Return what a move has to know of each record of this host."""
    host = Onlooker()
    records = [adoptable.renewed(host.connection, record, host.compute.pool_of) for record in host.store.sound()]
    return [view_of(host, record) for record in records]


def looks(instances, uuids):
    """Return the instances that need no run of their own; see compute/guest/settled.py."""
    return settled.look(Host.here("looks"), instances, uuids)


def addresses():
    """Return the addresses at which the guests are reached, and who will have one; see compute/guest/addresses.py."""
    host = Onlooker()
    records = list(host.store.sound())
    known = of_instances(host.connection, records)
    return {"addresses": known, "awaited": awaited(host.connection, records, known)}


def domains():
    """Return the guests that are no instances, and what is in the way of adopting them; see compute/guest/adoptable.py."""
    host = Onlooker()
    own = {record.uuid for record in host.store.sound()}
    return [guest.shown() for guest in adoptable.look(host.connection, own)]


def disks_of_others(uuids):
    """Return what lies beside the disks of instances of other hosts that this one sees; see compute/disk/attached.py."""
    host = Host.here("disks")
    return attached.of_others(host.pool_paths(), uuids, host.identify())


def examine(fix):
    """Return what only this host can see of its health, its clock, and all that it remembers of other hosts."""
    host = Host.here("doctor")
    return {"findings": doctor.look(host, fix), "clock": time.time(), "notes": whereabouts.recall_all(host.store)}


def main():
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    timeout, result = module.params["timeout"], {}
    with failing(module):
        saves = not module.check_mode
        result["ansible_facts"] = {"berth_host": facts.gather(timeout, saves, missing=reported_missing)}
        result["members"] = whereabouts.read_members(store.STATE_DIR)
        if module.params["looks"]:
            instances = result["ansible_facts"]["berth_host"]["instances"]
            result["looks"] = connection.Deadline(timeout).call(
                looks, instances, module.params["about"], what="looking at the instances"
            )
        if module.params["moves"]:
            result["moves"] = connection.Deadline(timeout).call(views, what="reading the records")
        if module.params["addresses"]:
            result.update(connection.Deadline(timeout).call(addresses, what="reading the addresses"))
        if module.params["domains"]:
            result["domains"] = connection.Deadline(timeout).call(domains, what="looking at the guests")
        if module.params["checkup"]:
            fix = module.params["fix"] and not module.check_mode
            result["checkup"] = connection.Deadline(timeout).call(examine, fix, what="the checks")
            result["changed"] = any(found["fixed"] for found in result["checkup"]["findings"])
        if module.params["about"]:
            result["notes"] = whereabouts.recall(store.Store(), module.params["about"])
        if module.params["attached"]:
            # storage that hangs, as that of the lost host may: what is known without it counts
            with contextlib.suppress(BerthError):
                result["attached"] = connection.Deadline(timeout).call(
                    disks_of_others, module.params["about"], what="looking for disks of other hosts"
                )
        if module.params["heard_of"]:
            result["heard_of"] = whereabouts.heard_of(store.Store())
        if module.params["digests"]:
            # without failed instances: if the run tells where one is now, its failure here is forgotten
            result["digests"] = whereabouts.digests(store.Store(), failed_instances.read(store.STATE_DIR))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
