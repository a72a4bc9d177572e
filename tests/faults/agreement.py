# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The records of an instance and of its volume, and libvirt, say the same at the end of an operation: I3, I4, I13."""

from __future__ import annotations

from invariants import Violation
from operations import OTHER

from ansible_collections.berth.kvm.plugins.module_utils.model.vm_states import (
    ACTIVE,
    PAUSED,
    RESCUED,
    SHELVED,
    STOPPED,
    VM_STATES,
)

VOLUME = "data"
OFF = {"snapped_off": STOPPED, "shelved": SHELVED}


def check(operation, view, uuid, volume_gb):
    """The record of an instance, those of its volumes and libvirt say the same. Raises Violation."""
    record = view.records[uuid]
    meant = VM_STATES.get(OFF.get(operation.end, operation.end), VM_STATES[ACTIVE])
    meant = VM_STATES[ACTIVE] if meant.power_state is None else meant  # a move keeps that from before, which was on
    off = not meant.on()
    if record["power_state"] != meant.power_state or bool(record.get("lock")) != (operation.end == "locked"):
        raise Violation("I4 the power is %s, the lock %s" % (record["power_state"], record.get("lock")))
    if off and (uuid in view.domains or view.permits):
        raise Violation("I4 a guest that is off is %s, permits %s" % (view.domains.get(uuid), view.permits))
    if not meant.defined and uuid in view.defined:
        raise Violation("I5 the guest is defined, and it has no disks")
    if (record["name"] == OTHER) != (operation.end == "renamed"):
        raise Violation("I4 the name is %s" % record["name"])
    if operation.end == PAUSED and view.domains.get(uuid, ("off",))[0] != "paused":
        raise Violation("I4 a paused guest is %s" % (view.domains.get(uuid),))
    if bool(record["spec"].get("rescue")) != (operation.end == RESCUED):
        raise Violation("I4 the record says of a rescue %s" % (record["spec"].get("rescue"),))
    snapshots = [bool(entry["made_at"]) for entry in record["spec"].get("snapshots") or []]
    if snapshots != [True] * operation.end.startswith("snapped"):
        raise Violation("I4 the snapshots are %s" % (record["spec"].get("snapshots"),))
    plugged, nics = operation.end == "plugged", record["spec"]["networks"]
    if len(nics) != 1 + plugged or bool(record["spec"].get("metadata")) != plugged:
        raise Violation("I4 the record names %d NICs and the metadata %s" % (len(nics), record["spec"].get("metadata")))
    names = [entry["name"] for entry in record["spec"].get("volumes") or []]
    named = sorted(volume for volume, found in view.volumes.items() if found["name"] in names)
    if len(names) != len(named) or len(named) != (operation.end == "attached"):
        raise Violation("I13 the record names the volumes %s" % named)
    live = view.has_volumes[uuid] if uuid in view.domains else named
    if not (named == view.names_volumes.get(uuid, named) == live):
        raise Violation("I13 the record names %s, libvirt %s and %s" % (named, view.names_volumes.get(uuid), live))
    if operation.end in ("attached", "detached"):
        check_volume(view, uuid if named else None, volume_gb)


def check_volume(view, holder, size_gb=None):
    """The volume is there with its file, and whose it is (None: nobody's)."""
    if len(view.volumes) != 1:
        raise Violation("I3 the volumes are %s" % view.volumes)
    volume, record = next(iter(view.volumes.items()))
    has = (record["spec"].get("instance") or {}).get("uuid")
    if has != holder or size_gb not in (None, record["resources"]["disk_gb"]):
        raise Violation("I13 the volume is that of %s, it has %s" % (has, record["resources"]))
    if view.volume_files != ["%s/disk.qcow2" % volume]:
        raise Violation("I3 the files of the volume are %s" % view.volume_files)
