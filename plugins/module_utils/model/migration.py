# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nova's names for a migration and its states, the part of a record that describes it, and what a record, its flavor and
its image must allow before one begins.
"""

from __future__ import annotations

from typing import Optional

from . import adopted, data_disks, hints, input_hints, shelves, snapshot_hints, snapshots, vm_states, volumes
from .errors import InvalidInput
from .guest_settings import GuestSettings
from .lifecycle import ACTIVE, PAUSED
from .messages import Document, Migration, Side
from .move_errors import (
    CannotResizeDisk,
    InstanceInvalidState,
    MigrationConflict,
    MigrationPreCheckError,
    OperationNotSupportedForSEV,
    OperationNotSupportedForVTPM,
)
from .record import Record

# Nova's migration_type.
RESIZE, COLD, LIVE = "resize", "migration", "live-migration"
KINDS = (RESIZE, COLD, LIVE)
# The steps that take up a move. They issue the fencing token {op, attempt} that the later steps carry.
TAKING = ("begin", "confirm", "revert", "abort", "reclaim", "restore_here", "erase")
# What a step returns besides the record. The other side may need it in any later step.
SAID = ("disks", "volumes", "guest", "seen", "targets", "transfer", "sent", "health", "history")


def new_migration(
    op: str,
    kind: str,
    source: Side,
    destination: Side,
    record: Record,
    spec: Document,
    now: int,
    confirm_window: int = 0,
) -> Migration:
    """The migration part of a record at the beginning of a move.

    ``source`` and ``destination`` are {uuid, name}; ``spec`` is the request with the new flavor; ``attempt`` counts how
    often the move was taken up and only grows; ``frozen`` is the attempt for which the guest was stopped, ``verified``
    the one in which a live guest arrived; ``grown`` is whether a guest gets the new flavor while it runs; ``shared`` is
    whether both hosts share the storage, as the destination finds out; ``confirm_window`` is in seconds, 0 = never
    confirmed automatically; ``waits_since`` is the destination's time since its boot when it took over, see
    compute/guest/summary.py. The destination adds ``arriving``: the bytes to copy.
    """
    return {
        "id": op,
        "type": kind,
        "status": None,
        "source": source,
        "destination": destination,
        "attempt": 1,
        "frozen": None,
        "grown": False,
        "verified": None,
        "shared": False,
        "started": False,
        "vm_state_before": record.vm_state or "active",
        "old_spec": record.spec,
        "new_spec": spec,
        "old_resources": record.resources,
        "confirm_window": confirm_window,
        "waits_since": None,
        "created_at": now,
    }


def same_host(migration: Migration) -> bool:
    return migration["source"]["uuid"] == migration["destination"]["uuid"]


# What a record, its flavor and its image must allow before a move begins, and what a new flavor must not change
# (smaller disks, another firmware, TPM or secure boot; on the same host, NUMA cells, PCI devices and vGPUs). A refusal
# changes nothing. compute/disk/disk_chain.py checks the disks and the saved memory of the guest.
FORMATS = {True: "raw", False: "qcow2"}
# The parts of a flavor that are disks: (key, unit).
DISKS = (("root_gb", "GiB"), ("ephemeral_gb", "GiB"), ("swap", "MiB"))


def check_begin(record: Record, kind: str, spec: Document, power: Optional[str]) -> None:
    """Refuse a move of an instance that is locked, busy, or in a state in which Nova moves none, and a disk that would become
    smaller. ``power``: the guest's state in libvirt. A paused one would not notice a shutdown."""
    if kind not in KINDS:
        raise ValueError("unknown kind of move: %r" % (kind,))
    record.check_unlocked()
    if record.phase != ACTIVE or record.task_state is not None:
        raise InstanceInvalidState(record.uuid, "task_state", record.task_state or record.phase, kind)
    if kind == LIVE and record.vm_state == vm_states.STOPPED:
        hint = hints.migrate_off(record.name)
        raise InstanceInvalidState(record.uuid, "vm_state", record.vm_state, kind, hint=hint)
    vm_states.check(record.name, record.vm_state, kind, record.task_state)
    is_meant = kind == LIVE and power == record.power_state == vm_states.PAUSED
    if not is_meant and (power in PAUSED or kind == LIVE and power != "running"):
        hint = hints.let_go_on(record.name) if power in PAUSED else hints.migrate_off(record.name)
        raise InstanceInvalidState(record.uuid, "power_state", power, kind, hint=hint)
    check_tied_to_host(record.name, record.spec, kind)
    if kind == RESIZE:
        check_grow_only(record.spec["flavor"], spec["flavor"])


def check_same_disks(record: Record, planned: Document) -> None:
    """Refuse a move that was planned before the instance got a data disk or a snapshot, or the guest of an adopted one anything, or
    was shelved or unshelved: the move would leave it behind."""
    if any(of(record.spec) != of(planned) for of in (data_disks.of, volumes.of, snapshots.of, adopted.of, shelves.of)):
        raise MigrationConflict(
            "the disks of %s, its volumes, its snapshots or its own definition were changed after this move was planned"
            % record.name,
            hint=hints.run_again(),
        )


def check_no_memory(record: Record) -> None:
    """Refuse to move to another host what has snapshots with memory: that is a file for the QEMU and the CPU that wrote it."""
    names = snapshots.with_memory(record.spec)
    if names:
        said = "its snapshots with memory stay on their host: %s. %s" % (
            ", ".join(names),
            snapshot_hints.delete_one(record.name, names[0]),
        )
        raise MigrationPreCheckError(record.uuid, [said])


def check_tied_to_host(name: str, spec: Document, kind: str) -> None:
    """Refuse to move a TPM, whose state libvirt keeps outside of the instance's disks and removes with the definition,
    and to live-migrate encrypted memory, whose pages cannot be read outside of the guest. The TPM of a shelved instance is in its
    backup."""
    settings = GuestSettings.of(spec)
    if settings.tpm_version() and not shelves.of(spec):
        raise OperationNotSupportedForVTPM(name, kind)
    if kind == LIVE and settings.encrypts_memory():
        raise OperationNotSupportedForSEV(name, kind)


def check_grow_only(old: Document, new: Document) -> None:
    """Raise CannotResizeDisk if a disk of the flavor ``new`` is smaller than that of ``old`` (0 root_gb: the image's
    size), or the root disk would have to change its format."""
    for key, unit in DISKS:
        before, wanted = old.get(key) or 0, new.get(key) or 0
        if wanted < before:
            raise CannotResizeDisk(
                "Unable to resize disk down: %s of %s is %d %s, of %s %d %s"
                % (key, old.get("name"), before, unit, new.get("name"), wanted, unit),
                field=key,
                value=wanted,
                rule="at least %d %s" % (before, unit),
                hint=input_hints.flavor_with_disks(str(old.get("name"))),
            )
    if is_raw(old) != is_raw(new):
        raise CannotResizeDisk(
            "The root disk of %s is %s, that of %s %s"
            % (old.get("name"), FORMATS[is_raw(old)], new.get("name"), FORMATS[is_raw(new)]),
            field="flavor.extra_specs.berth:root_disk",
            value=(new.get("extra_specs") or {}).get("berth:root_disk"),
            rule="a disk keeps its format: both flavors have raw, or neither",
        )


def check_same_firmware(spec: Document, resized: Document) -> None:
    """Refuse another firmware, TPM or secure boot: the file with the firmware's variables and keys is made once."""
    before, after = GuestSettings.of(spec), GuestSettings.of(resized)
    for what, old, new in (
        ("firmware type", before.get("firmware_type", "bios"), after.get("firmware_type", "bios")),
        ("TPM", before.tpm_version(), after.tpm_version()),
        ("secure boot", before.secure_boot(), after.secure_boot()),
    ):
        if old != new:
            raise InvalidInput(
                "berth_flavor",
                resized["flavor"]["name"],
                "the same %s as before a resize: %s, not %s" % (what, old, new),
            )


def is_raw(flavor: Document) -> bool:
    return (flavor.get("extra_specs") or {}).get("berth:root_disk") == "raw"


def check_same_host(uuid: str, old: Document, new: Document) -> None:
    """Refuse what one host cannot hold twice: pinned CPUs, NUMA cells, PCI devices and vGPUs."""
    if any(part.get("numa_topology") or part.get("pci_devices") or part.get("vgpus") for part in (old, new)):
        raise MigrationPreCheckError(uuid, ["NUMA cells, PCI devices and vGPUs are not resized on the same host"])
