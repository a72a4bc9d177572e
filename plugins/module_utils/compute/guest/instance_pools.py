# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storage pools of this host from which an instance's disks may be removed."""

from __future__ import annotations

from ..disk import owner
from . import domain


def find(host, uuid, record=None):
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
