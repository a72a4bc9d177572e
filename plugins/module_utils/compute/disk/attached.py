# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of an instance its host alone knows: its volumes, and the addresses of its NICs, which a pool may have given it.

It is kept beside the disks, in the file attached.json: where these are on shared storage, another host takes all of it over when
this one is lost. It is written before the guest gets a volume or an address, and before a volume is free for others.
"""

from __future__ import annotations

import json
import os

from ...model import nics, volumes
from .. import durable, paths
from . import owner

FILE = "attached.json"


def write(pool_path, record):
    """Keep what the record says. An adopted instance whose disks lie elsewhere has no directory in the pool."""
    directory = paths.instance(pool_path, record.uuid)
    data = json.dumps(of(record.spec), sort_keys=True).encode()
    if os.path.isdir(directory) and durable.read_in(directory, FILE, mode=paths.PASS_MODE) != data:
        durable.write_in(directory, FILE, data, mode=paths.PASS_MODE)


def of(spec):
    """Return {volumes, nics} of a request; the volumes as they are once a guest has used them."""
    return {"volumes": volumes.used(spec).get("volumes") or [], "nics": nics.taken(spec.get("networks"))}


def read(pool_path, uuid):
    """Return {volumes, nics} as they are kept beside the disks; None if they are not, as of a guest that an earlier version has
    started."""
    data = durable.read_in(paths.instance(pool_path, uuid), FILE, mode=paths.PASS_MODE)
    try:
        told = json.loads(data or b"null")
        return {"volumes": list(told["volumes"]), "nics": list(told["nics"])}
    except (ValueError, KeyError, TypeError):
        return None


def of_others(pool_paths, uuids, host_uuid):
    """Return [{uuid, owner, volumes, nics}] of those instances whose disks are in a pool of this host and belong to another, the
    last two if they are kept there."""
    found = {}
    for pool_path in pool_paths:
        for uuid in uuids:
            whose = owner.read(pool_path, uuid)
            if whose not in (None, host_uuid):
                found[uuid] = {"uuid": uuid, "owner": whose, **(read(pool_path, uuid) or {})}
    return list(found.values())
