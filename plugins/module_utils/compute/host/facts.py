# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host state document: everything that placement must know of this host, gathered in one pass.

No call here waits for a QEMU, and no call is repeated. Names are Nova's; *_mb are MiB, *_gb GiB.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections import Counter
from xml.etree import ElementTree

from ...model import admitted_members, adopted, data_disks, nics, request_digest, shelves
from ...model.collection_version import COLLECTION_VERSION
from ...model.identity import own_name
from ...model.lifecycle import BUSY, SPAWNING
from ...model.pools import overpromised
from ...model.safe_text import clean, clean_all
from ...model.schema import CUSTOM
from ..connection import URI, Deadline, LibvirtUnavailable, connect, each, require_libvirt
from ..disk import storage_pools
from ..guest import domains, network, summary
from ..record import counters, drained, failed_instances, registry_mark, state_directory
from ..record.store import STATE_DIR, Store
from ..record.volume_store import FROM, VolumeStore, confirmed_gb, grows, holder, is_volume, size_gb
from . import address, boot_time, by_hand, capabilities, firmware, mdev, metrics, numa, pci, traits
from .settings import PATH, check_uuid, load

SCHEMA = 1
GIB = storage_pools.GIB
POOL_TIMEOUT = 5  # s
WARNINGS_LIMIT = 50
WARNING_LENGTH = 500
REASON_LENGTH = 1000  # with what to do

# Task states that keep the host's disks or network busy although role and phase do not.
BUSY_TASKS = frozenset((SPAWNING, "migrating", "resize_reverting"))
# The settings that placement uses.
PLACEMENT_SETTINGS = (
    "cpu_allocation_ratio",
    "ram_allocation_ratio",
    "disk_allocation_ratio",
    "reserved_host_cpus",
    "reserved_host_memory_mb",
    "reserved_host_disk_gb",
)


def no_look(_record, pool_path):
    """Say nothing of an instance's files: a claim does not need to know."""
    return {}


def gather(timeout, save_generation, uri=URI, settings_path=PATH, state_dir=STATE_DIR, missing=no_look):
    """Return the host state document of this host, including the state of its state directory. ``missing`` tells the files of
    an instance that are gone, see reported_missing in disk/differences.py."""
    host_settings = load(settings_path)
    store = Store(state_dir)
    # before the records, so that the serial is never newer than they are
    state = state_directory.look(store)
    records, damaged = store.sound_and_damaged()
    volumes, damaged_volumes = VolumeStore.beside(store).sound_and_damaged()
    libvirt = connect(timeout, uri)
    document = collect(libvirt, host_settings, records, state_dir, timeout, save_generation, volumes, missing)
    known = with_damaged(with_damaged_volumes(document, damaged_volumes), damaged)
    return {**known, "state": state, **registry_mark.reported(state_dir)}


def with_damaged_volumes(document, damaged):
    """Return the document with the volumes whose records cannot be read, {uuid: why}. Each is refused by itself."""
    if not damaged:
        return document
    why = {uuid: clean(error.message, WARNING_LENGTH) for uuid, error in damaged.items()}
    warnings = [*why.values(), *document["warnings"]][:WARNINGS_LIMIT]
    return {**document, "damaged_volumes": why, "warnings": warnings}


def with_damaged(document, damaged):
    """Return the document with the instances whose records cannot be read, {uuid: why}: like a guest without a record, each
    is refused by its name. What it takes is not known, so the host gets no new guests."""
    if not damaged:
        return document
    why = {uuid: clean(error.message, WARNING_LENGTH) for uuid, error in damaged.items()}
    seen = {instance["uuid"] for instance in document["instances"]}
    absent = [_without_room(uuid) for uuid in why if uuid not in seen]
    instances = [
        {**instance, "managed": True, "damaged": why[instance["uuid"]]} if instance["uuid"] in why else instance
        for instance in document["instances"] + absent
    ]
    first = next(iter(damaged.values()))
    reason = clean(". ".join(filter(None, (first.message, first.hint))), REASON_LENGTH)
    service = {**document["service"], "disabled": True, "disabled_reason": reason}
    warnings = [*why.values(), *document["warnings"]][:WARNINGS_LIMIT]
    listed = {"instances": instances, "num_instances": len(instances)}
    return {**document, **listed, "service": service, "warnings": warnings}


def collect(
    connection, settings, records, state_dir=STATE_DIR, timeout=30, save_generation=True, volumes=(), missing=no_look
):
    """Return the host state document (schema 1) within ``timeout`` seconds, or raise LibvirtTimeout.

    ``records``: all records of the host's store; every role counts. ``volumes``: the records of its volumes, which take
    room even if no instance has them. With ``save_generation`` false, nothing is written. ``missing``: see gather.
    """
    deadline = Deadline(timeout)
    library = require_libvirt()
    try:
        arguments = connection, settings, records, state_dir, deadline, save_generation, volumes, missing
        return deadline.call(_collect, *arguments, what="gathering the facts")
    except (library.libvirtError, ElementTree.ParseError) as error:
        raise LibvirtUnavailable("libvirt gave no usable answer: %s" % error)


def _collect(connection, settings, records, state_dir, deadline, save_generation, volumes, missing):
    warnings = []
    host = capabilities.parse_host(connection.getCapabilities())
    check_uuid(settings, host.uuid)
    guest_types = _guest_types(connection, settings, host, warnings)
    domain_states = _domains(connection, warnings)
    foreign = _foreign_domains(domain_states, records)
    disk_uses = {domain.uuid: domains.disk_use(domain, warnings) for domain in foreign}

    limit = Deadline(min(POOL_TIMEOUT, deadline.remaining()))
    active = storage_pools.read_pools(connection, limit, warnings)
    pools = _pools(active, settings, [*records, *volumes], disk_uses, warnings)
    cpus = _cpus(connection, settings)
    document = {
        "schema": SCHEMA,
        "collection_version": COLLECTION_VERSION,
        "prepared": settings.prepared,
        "uuid": host.uuid,
        **_identity(connection, settings),
        **{name: getattr(settings, name) for name in PLACEMENT_SETTINGS},
        **_service(settings, state_dir),
        **_what_runs_here(host, guest_types),
        **_guest_cpu(settings, guest_types, warnings),
        "metrics": _metrics(settings, cpus, warnings),
        **counters.reported_failed_builds(state_dir),
        "num_io_ops": sum(record.state() in BUSY or record.task_state in BUSY_TASKS for record in records),
        "pool": settings.pool,
        "pools": {clean(name): pool["shown"] for name, pool in pools.items()},
        **network.available(connection, warnings),
    }
    topology, distances = numa.read_topology(host.topology, cpus["shared"], cpus["dedicated"])
    document["traits"] = _traits(connection, settings, host, guest_types, topology)
    document.update(_pci(connection, settings, records, foreign, warnings))
    document.update({**_encrypted_guests(guest_types, records), **_declared(settings, records)})
    undefined = domains.undefined(connection)
    differing = by_hand.reported(records, domain_states, undefined, state_dir, save_generation, warnings)
    pool, files = pools.get(settings.pool), functools.partial(missing, pool_path=_paths(active, settings).__getitem__)
    document["instances"] = _instances(records, domain_states, differing, files)
    document["instances"] += [_foreign(each, domain_states, disk_uses, pool, cpus["dedicated"]) for each in foreign]
    document["volumes"] = [_volume(volume, settings.pool, records, domain_states) for volume in volumes]
    document["failed_instances"] = failed_instances.reported(state_dir)
    document.update(_usage(connection, settings, document["instances"], pool, cpus))
    document["numa_topology"] = numa.to_document(_with_usage(topology, records, foreign, warnings), distances)
    document["generation"] = counters.generation_of(
        _fingerprint(document, settings, records), save_generation, state_dir
    )
    warnings += [text for _pool, text in overpromised(document)]
    warnings += _all_reserved(document, settings)
    document["warnings"] = [clean(warning, WARNING_LENGTH) for warning in warnings[:WARNINGS_LIMIT]]
    return document


def _service(settings, state_dir):
    """Return {service}, and if the host was drained {drained}: both close it, a drain until it is returned."""
    service = {"disabled": settings.disabled, "disabled_reason": settings.disabled_reason, "up": True}
    closed = drained.read(state_dir)
    if closed is None:
        return {"service": service}
    why = "; ".join(filter(None, [drained.describe(closed), settings.disabled_reason]))
    return {"service": {**service, "disabled": True, "disabled_reason": why}, "drained": closed}


def _all_reserved(document, settings):
    """Yield what settings leave to no guest."""
    reserved = settings.reserved_host_memory_mb
    if reserved >= document["memory_mb"]:
        text = "no guest can run here: berth_host_reserved_host_memory_mb keeps %d MiB, and there are %d"
        yield text % (reserved, document["memory_mb"])
    if not document["vcpus"] and not document["pcpus"]:
        yield "no guest can run here: the host has no CPU of berth_host_cpu_shared_set and berth_host_cpu_dedicated_set"


def _guest_types(connection, settings, host, warnings):
    guest_types = capabilities.domain_types(connection, settings.domain_type, host.arch)
    if not guest_types:
        warnings.append("no guest can run here: libvirt offers nothing for the domain type %s" % settings.domain_type)
    return guest_types


def _domains(connection, warnings):
    states = domains.states(connection)
    for uuid, reason in sorted(domains.hung(states).items()):
        warnings.append("domain %s (%s) hangs: %s" % (uuid, states[uuid][0].name(), reason))
    return states


def _guest_cpu(settings, guest_types, warnings):
    """Return {guest_cpu}: the CPU model that guests get (None: host-model) and those they could have. A host that lacks all
    models of its settings gets no new guests."""
    if not guest_types:
        return {}
    usable = clean_all(list(guest_types[0].usable_models))
    try:
        return {"guest_cpu": {"model": capabilities.named_model(guest_types[0], settings.cpu_models), "usable": usable}}
    except capabilities.CpuModelNotUsable as error:
        warnings.append("%s. %s" % (error.message, error.hint))
        service = {"disabled": True, "disabled_reason": error.message, "up": True}
        return {"guest_cpu": {"model": None, "usable": usable}, "service": service}


def _what_runs_here(host, guest_types):
    domain_types = [guest.domain_type for guest in guest_types]
    return {
        "domain_types": domain_types,
        "machine_types": list(host.machine_types),
        "firmware": clean_all(firmware.offered(host.arch)),
        "cpu_info": host.cpu_info,
        "supported_instances": [list(guest) for guest in host.guests if guest[1] in domain_types],
    }


def _paths(pools, settings):
    """Return the directories of the pools by name, and by None that of the pool for instances, if it is there."""
    paths = {name: pool["path"] for name, pool in pools.items()}
    return {**paths, **({None: paths[settings.pool]} if settings.pool in paths else {})}


def _instances(records, domain_states, differing, missing):
    lets_in = admitted_members.reported((record.uuid, record.spec) for record in records)
    return [
        {
            **_own(record, domain_states),
            **differing[record.uuid],
            **clean_all(missing(record)),
            **lets_in[record.uuid],
        }
        for record in records
    ]


def _foreign_domains(domain_states, records):
    own = {record.uuid for record in records}
    others = [domain for uuid, (domain, _state) in domain_states.items() if uuid not in own]
    return [domain for domain in each(domains.read, others) if domain]


def _with_usage(topology, records, foreign, warnings):
    """Return the NUMA cells with what instances and foreign domains use of them."""
    if topology is None:
        return None
    topology = numa.add_records(topology, records, warnings)
    for domain in foreign:
        topology = numa.add_foreign(topology, domain)
    return topology


def _identity(connection, settings):
    name = connection.getHostname()
    return {
        "host": name,
        "node": name,
        "hypervisor_hostname": name,
        "hypervisor_type": connection.getType(),
        "hypervisor_version": connection.getVersion(),
        "libvirt_version": connection.getLibVersion(),
        "host_ip": address.of_host(settings.migration_address, name),
    }


def _cpus(connection, settings):
    _known, states, _online = connection.getCPUMap(0)
    online = frozenset(cpu for cpu, on in enumerate(states) if on)
    shared, dedicated = numa.cpu_pools(online, settings.dedicated_cpus(), settings.shared_cpus())
    info = connection.getInfo()
    return {"online": online, "shared": shared, "dedicated": dedicated, "frequency": info[3], "node_memory_mb": info[1]}


def _metrics(settings, cpus, warnings):
    """Return the kernel's numbers and those from the files of ``metrics_directory``."""
    found = metrics.read(len(cpus["online"]), cpus["frequency"])
    if settings.metrics_directory is None:
        return found
    return found + metrics.read_own(settings.metrics_directory, {metric["name"] for metric in found}, warnings)


def _memory_mb(connection, fallback):
    """Return MiB of memory from the node's statistics: the node's info sums NUMA cells, which may be incomplete."""
    library = require_libvirt()
    try:
        return connection.getMemoryStats(library.VIR_NODE_MEMORY_STATS_ALL_CELLS, 0)["total"] // 1024
    except library.libvirtError:
        return fallback


def _traits(connection, settings, host, guest_types, topology):
    if not guest_types:
        return sorted(settings.traits)
    best = guest_types[0]
    if set(settings.cpu_models) & set(best.usable_models):
        best = capabilities.with_model(best, capabilities.named_model(best, settings.cpu_models))
    features = capabilities.guest_cpu_features(connection, host.arch, best)
    threads = 2 if topology is not None and topology.has_threads else 1
    versions = (connection.getLibVersion(), connection.getVersion())
    own = [*settings.traits, *traits.viommu_traits(host.arch, versions)]
    return traits.host_traits(host.arch, features, best.enums, threads, own, best.encrypted_guests)


def _taken(records):
    """Return {resource class: how much of it the instances have}."""
    taken = Counter()
    for record in records:
        amounts = record.resources.get("resources") or {}
        taken.update({name: amount for name, amount in amounts.items() if isinstance(amount, int)})
    return taken


def _declared(settings, records):
    """Return what only the settings tell: {stats}, and {custom_resources} of a host that has or had some: {CUSTOM_X: {total,
    used}}."""
    taken = _taken(records)
    names = sorted({*settings.custom_resources, *(name for name in taken if re.match(CUSTOM + r"\Z", name))})
    found = {name: {"total": settings.custom_resources.get(name, 0), "used": taken[name]} for name in names}
    return {**({"custom_resources": found} if found else {}), **({"stats": settings.stats} if settings.stats else {})}


def _encrypted_guests(guest_types, records):
    """Return {encrypted_guests} of a host that supports them: Nova's MEM_ENCRYPTION_CONTEXT."""
    total = guest_types[0].encrypted_guests if guest_types else 0
    used = _taken(records)["MEM_ENCRYPTION_CONTEXT"]
    return {"encrypted_guests": {"total": total, "used": used}} if total or used else {}


def _pci(connection, settings, records, foreign, warnings):
    devices, mdev_types = pci.read_devices(connection, warnings)
    users = {
        device["address"]: record.uuid for record in records for device in record.resources.get("pci_devices") or ()
    }
    users.update((address, domain.uuid) for domain in foreign for address in domain.pci_addresses)
    pci.mark(devices, users, settings.pci_devices)
    offered = mdev.tell(settings, records)
    vgpus = {"vgpus": offered} if offered else {}
    return {"pci_devices": devices, "pci_pools": pci.pools(devices), "mdev_types": clean_all(mdev_types), **vgpus}


def _pools(active, settings, records, disk_uses, warnings):
    """Return {name: {shown (part of the document), device, least (bytes)}} of the ``active`` pools that are mounted."""
    instances = [record for record in records if not is_volume(record)]
    pools = storage_pools.only_mounted(active, settings.pool, instances, warnings)
    if settings.pool not in pools:
        warnings.append(
            "the pool %s for instances does not exist or is not active, so the host has no disk space for them"
            % settings.pool
        )
    storages = storage_pools.storages(pools, settings.pool)
    uses = {
        storage: _disk_uses(pools, storages, storage, records, disk_uses, settings) for storage in storages.values()
    }
    return {
        name: {
            "device": pool["device"],
            "least": pool["free"] - uses[storages[name]]["owed"],
            "shown": {
                "path": clean_all(pool["path"]),
                "type": pool["type"],
                "storage": clean(storages[name]),
                "capacity_gb": pool["capacity"] // GIB,
                "free_gb": pool["free"] // GIB,
                "free_mb": pool["free"] >> 20,
                "images_mb": pool["images"] >> 20,
                "promised_gb": _gb_up(uses[storages[name]]["promised"]),
                "owed_gb": _gb_up(uses[storages[name]]["owed"]),
            },
        }
        for name, pool in pools.items()
    }


def _disk_uses(pools, storages, storage, records, disk_uses, settings):
    """Return {promised, owed} in bytes: what all disks on a file system may take, and have not yet taken."""
    promised = owed = 0
    for record in records:
        name = record.spec.get("pool") or settings.pool
        if storages.get(name) == storage:
            size = record.resources.get("disk_gb", 0) * GIB
            below = "volumes" if is_volume(record) else "instances"
            allocated = storage_pools.allocated_below("%s/%s/%s" % (pools[name]["path"], below, record.uuid))
            promised, owed = promised + size, owed + max(0, size - allocated)
    for use in disk_uses.values():
        size, allocated = use.get(pools[storage]["device"], (0, 0))
        promised, owed = promised + size, owed + max(0, size - allocated)
    return {"promised": promised, "owed": owed}


def _gb_up(size):
    return -(-size // GIB)


def _own(record, domain_states):
    """Return an instance of berth: what its record says, and whether it runs."""
    spec, resources = record.spec, record.resources
    cells = {"numa_topology": resources["numa_topology"]} if resources.get("numa_topology") else {}
    lock = {"locked": clean(record.locked_by())} if record.lock else {}
    unfiltered = {"unfiltered": clean_all(nics.unfiltered(spec.get("networks")))}
    batch = {part: clean(spec[part]) for part in ("batch_id", "home") if spec.get(part)}
    access = {"access_ips": clean_all(summary.access_ips(spec))} if summary.access_ips(spec) else {}
    return {
        **cells,
        **lock,
        **access,
        **batch,
        **summary.moved_to(record),
        **(unfiltered if unfiltered["unfiltered"] else {}),
        "uuid": record.uuid,
        "name": record.name,
        "project_id": record.project_id,
        "flavor": clean_all(spec.get("flavor")) or None,
        "group": clean_all((spec.get("group") or {}).get("name")),
        "role": record.role,
        "generation": list(record.generation),
        "phase": record.phase,
        "vm_state": record.vm_state,
        "task_state": record.task_state,
        "power_state": domain_states[record.uuid][1] if record.uuid in domain_states else "nostate",
        "foreign": False,
        "vcpus": resources.get("vcpus", 0),
        "pcpus": resources.get("pcpus", 0),
        "memory_mb": resources.get("memory_mb", 0),
        "disk_gb": resources.get("disk_gb", 0),
        "pool": spec.get("pool"),
        "availability_zone": clean_all(summary.zone(spec)),
        "image_props": clean_all((spec.get("image") or {}).get("properties") or {}),
        "nics": clean_all(nics.taken(spec.get("networks"))),
        "disks": data_disks.shown(spec),
        "request_digests": request_digest.digests(spec),
        **({"adopted": record.name} if adopted.of(spec) else {}),
        **own_name(record),
        **shelves.reported(record),
    }


def _volume(record, pool, records, domains_found):
    return {
        "uuid": record.uuid,
        "name": record.name,
        "project_id": record.project_id,
        "size_gb": size_gb(record),
        **({FROM: confirmed_gb(record)} if grows(record) else {}),
        "pool": record.spec.get("pool") or pool,
        "instance": clean_all(holder(record, records, domains_found.__contains__)),
        "role": record.role,
        "phase": record.phase,
        "changed_at": record.history[-1]["at"] if record.history else None,
    }


def _foreign(domain, domain_states, disk_uses, pool, dedicated):
    """Return a domain that berth did not make: it counts at its full size, running or not, and is never touched."""
    pinned = len(domain.pinned_cpus & dedicated)
    on_dedicated = sum(1 for pin in domain.vcpu_pins if pin and pin <= dedicated)
    size = disk_uses[domain.uuid].get(pool["device"], (0, 0))[0] if pool else 0
    return {
        "uuid": domain.uuid,
        "name": clean(domain.name),
        "project_id": None,
        "flavor": None,
        "group": None,
        "role": None,
        "generation": None,
        "managed": domain.managed,
        "phase": None,
        "vm_state": None,
        "task_state": None,
        "power_state": domain_states[domain.uuid][1],
        "foreign": True,
        "vcpus": domain.vcpus - on_dedicated,
        "pcpus": pinned,
        "memory_mb": domain.memory_mb,
        "disk_gb": _gb_up(size),
        "pool": None,
        "image_props": {},
        "nics": clean_all(nics.of_guest(domain.macs, domain.record)),
    }


def _without_room(uuid):
    """Return an instance of which only the uuid is known."""
    nothing = domains.Domain(uuid, uuid, 0, 0, (), (), (), (), None, frozenset())
    return _foreign(nothing, {uuid: (None, "nostate")}, {}, None, frozenset())


def _usage(connection, settings, instances, pool, cpus):
    """Return the totals, what instances use (without reserves), and what is left, which may be negative."""
    memory_mb = _memory_mb(connection, cpus["node_memory_mb"])
    memory_mb_used = sum(instance["memory_mb"] for instance in instances)
    local_gb, local_gb_used, least = 0, 0, 0
    if pool:
        local_gb, local_gb_used = pool["shown"]["capacity_gb"], pool["shown"]["promised_gb"]
        least = pool["least"] // GIB
    return {
        "vcpus": len(cpus["shared"]),
        "pcpus": len(cpus["dedicated"]),
        "vcpus_used": sum(instance["vcpus"] for instance in instances),
        "pcpus_used": sum(instance["pcpus"] for instance in instances),
        "memory_mb": memory_mb,
        "memory_mb_used": memory_mb_used,
        "free_ram_mb": memory_mb - settings.reserved_host_memory_mb - memory_mb_used,
        "local_gb": local_gb,
        "local_gb_used": local_gb_used,
        "free_disk_gb": local_gb - settings.reserved_host_disk_gb - local_gb_used,
        "disk_available_least": least,
        "num_instances": len(instances),
    }


def _fingerprint(document, settings, records):
    """Return a digest of the host's state, without numbers that always change."""
    moving = ("metrics", "disk_available_least", "pools", "generation", "failed_build_age_s")
    steady = {name: value for name, value in document.items() if name not in moving}
    versions = sorted([record.uuid, *map(str, record.version())] for record in records)
    text = json.dumps([boot_time.boot_id(), settings.to_dict(), versions, steady], default=str)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
