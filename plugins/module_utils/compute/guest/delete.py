# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The delete of an instance here: phase deleting, then permit, guest, definition, disks, volumes, and the record last.

The next delete, or the next build of the instance here, finishes an interrupted one.
"""

from __future__ import annotations

from ...model import adopted, volumes
from ...model.lifecycle import DELETING, OWN
from ...model.vm_states import BUILDING
from .. import paths
from ..disk import disk, disk_chain, owner, volume
from ..record import journal
from ..record.volume_store import VolumeStore
from . import disk_users, domain, domain_xml, gate
from .summary import is_made


def pools_of(host, uuid, record=None):
    """Return their paths. Whatever happened to the claim here, the disks on shared storage may be another host's.
    Without a record, any pool is possible; except in the host's own pool, only disks that this host owns by their owner
    file are removed."""
    own_uuid = host.identify()
    if record is None:
        home = host.pool_path()
        others = [path for path in host.pool_paths() if path != home and owner.read(path, uuid) == own_uuid]
        pools = [home, *others]
    elif _has_none(host, record):
        pools = []
    else:
        pools = [host.pool_of(record)]
    return [path for path in pools if not owner.is_another(path, uuid, own_uuid)]


def _has_none(host, record):
    """Whether the instance can have no disks: this host knows neither a pool of that name nor the guest."""
    name = record.spec.get("pool")
    return bool(name) and not host.has_pool(name) and domain.find(host.connection, record.uuid) is None


def check_volumes(store, record):
    """Raise RecordInvalid if the record of a volume is damaged: the delete would end half way, with the disks gone."""
    for entry in volumes.of(record.spec):
        VolumeStore.beside(store).read(entry["uuid"])


def check_pool(host, record):
    """Raise DiskChainChanged for a delete that was begun if the pool is not mounted: the disks would reappear."""
    if record.role == OWN and record.vm_state != BUILDING and not adopted.files(record.spec):
        disk_chain.check_pool(host, record)


def spec_to_go(record):
    """Return the request that says which volumes a delete removes. The volumes of a guest that was never made stay."""
    return record.spec if record.phase == DELETING or is_made(record) else volumes.kept(record.spec)


def delete(instance, record, spec=None):
    """Delete the instance. ``spec`` says what happens to the volumes, by default spec_to_go()."""
    if record.phase != DELETING:
        if domain.is_active(instance.host.connection, instance.uuid):
            volume.mark_used(instance.store, record)  # a record that says that it never ran is an old one
        instance.observe("delete begin")
        deleting = journal.noted(record, "delete").replace(
            phase=DELETING, task_state="deleting", spec=spec or spec_to_go(record)
        )
        record = instance.swap(deleting)
    sweep(instance, record)
    instance.observe("delete volumes")
    volume.release(instance.host, record)
    instance.observe("delete record")
    instance.store.compare_and_swap(record, None)


def sweep(instance, record=None):
    """Remove everything but the record. Return whether there was anything."""
    pools = pools_of(instance.host, instance.uuid, record)
    instance.observe("delete permit")
    found = gate.revoke(instance.uuid, instance.host.run_dir)
    instance.observe("delete domain")
    found = domain_xml.remove_guest(instance.host.connection, instance.uuid, record) or found
    instance.observe("delete disks")
    name = record.name if record else None
    for pool_path in pools:
        found = disk.remove_all(pool_path, instance.uuid, name, instance.host.identify()) or found
    found = bool(record) and disk_users.remove_found(instance.host.connection, record) or found
    return paths.remove_console_logs(instance.uuid) or found
