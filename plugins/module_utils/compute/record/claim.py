# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims: the host's final check of a placement, under its lock and with the scheduler's arithmetic; and whether the
claim of an ended run is adopted, or dropped and decided again; and with which epoch a new owner begins. The room of
volumes is claimed by volume_claim.py.

A claim is a record in role CLAIM. It holds room on the host for its instance until it is built or withdrawn. The token
identifies the run: the same token is the same claim again, another token adopts the claim of an ended run.
"""

from __future__ import annotations

import secrets

from ...model import data_disks, vm_states, volume_hints, volumes
from ...model.errors import BerthError, InstanceExists, InvalidInput
from ...model.identity import check_name, instance_uuid
from ...model.lifecycle import CLAIM
from ...model.record import Record
from ...model.request_spec import RequestSpec
from ...model.volumes import VolumeConflict
from ..disk import volume
from ..errors import ClaimRevoked, HostIdentityChanged, InstanceBusy, StaleRecord
from . import failed_instances, journal, registry_mark, state_directory, volume_claim, volume_store, whereabouts
from .ledger import Ledger, less_disk
from .store import check_uuid

CLAIMED = "claimed"


def claim_all(host, claims, dry=False):
    """Decide claims [{spec, token, limits}] in order. Return [{uuid, name, claimed, token, allocation, error}].

    Facts are gathered once; each claim that succeeds is then subtracted. One that fails does not affect the others.
    """
    host.identify()
    state_directory.check(host.store)
    with host.store.host_lock():
        registry_mark.check_and_advance(host.store, dry)
        results = [_prepare(host, claim, dry) for claim in claims]
        if any(result["pending"] for result in results):
            ledger = Ledger(host)
            for claim, result in zip(claims, results):
                if result.pop("pending"):
                    _decide(host, ledger, claim, result, dry)
        for result in results:
            result.pop("pending", None)
    return results


def withdraw_all(host, withdrawals, dry=False):
    """Drop claims [{uuid, token}]. Return [{uuid, withdrawn}]. A claim that another run adopted, or is built, stays."""
    results, store = [], host.store
    with store.host_lock():
        for withdrawal in withdrawals:
            uuid, token = check_uuid(withdrawal["uuid"]), withdrawal["token"]
            record = store.read(uuid)
            withdrawn = record is not None and record.role == CLAIM and record.token == token
            if not dry:
                store.bury(token)
                if withdrawn:
                    withdrawn = _drop(host, record)
            results.append({"uuid": uuid, "withdrawn": withdrawn})
    return results


def _drop(host, record):
    """Remove a claim. Return whether that was possible: once its build has begun, it is not a claim any more."""
    try:
        with host.store.instance_lock(record.uuid, timeout=0):
            volume.drop_claim(host, record)
    except (InstanceBusy, StaleRecord):
        return False
    return True


def _prepare(host, claim, dry):
    """Decide what needs no facts: does the claim exist already, or another run's claim that has to make way?"""
    store = host.store
    result = {
        "uuid": None,
        "name": None,
        "claimed": False,
        "changed": False,
        "token": None,
        "allocation": None,
        "error": None,
    }
    result["pending"] = False
    try:
        spec, token = claim["spec"], claim.get("token") or secrets.token_hex(16)
        check_identity(spec, claim.get("after"))
        result.update(uuid=spec["uuid"], name=spec["name"], token=token)
        _check_machine(host, claim)
        if store.is_buried(token):
            raise ClaimRevoked("this claim of %s was withdrawn" % spec["name"])
        record = store.read(spec["uuid"])
        if record is None:
            result["pending"] = True
        elif record.role != CLAIM:
            raise InstanceExists(
                "this host holds %s already (%s, %s)" % (record.name, record.role, record.phase), uuid=record.uuid
            )
        elif (record.token == token or _same_room(record.spec, spec)) and volume_store.are_attached(store, record.spec):
            _adopt(store, record, token, claim, result, dry)
        else:
            result["pending"] = True
            if not dry:
                with store.instance_lock(record.uuid, timeout=0):
                    volume.drop_claim(host, record)
    except BerthError as error:
        result["error"] = error.to_dict()
    return result


def _check_machine(host, claim):
    """A name of the inventory may be that of another machine since the registry heard of it."""
    meant, here = claim.get("host_uuid"), host.identify()
    if meant not in (None, here):
        text = "%s was chosen on the machine %s, and under that host's name answers the machine %s"
        raise HostIdentityChanged(text % (claim["spec"]["name"], meant, here))


def check_identity(spec, after=None):
    """Check that the uuid of a request follows from its project and name. One that had an owner before (``after``) may have been
    renamed."""
    check_name(spec.get("name"), "spec.name")
    check_uuid(spec.get("uuid"))
    if not any(after or ()) and spec["uuid"] != instance_uuid(spec.get("project_id"), spec["name"]):
        raise InvalidInput("spec.uuid", spec["uuid"], "the uuid that follows from project and name")


def check_name_free(store, uuid, name, project):
    """Raise InstanceExists if another instance of this host than ``uuid``, whose uuid need not follow from it, has the name."""
    for record in store.records():
        if (record.name, record.project_id) == (name, project) and record.uuid != uuid:
            raise InstanceExists("this host has an instance %s already (%s)" % (name, record.uuid))


def _same_room(old, new):
    parts = ("flavor", "image", "group", "numa_topology", "pci_requests", "pool", "is_bfv")
    same = all(old.get(part) == new.get(part) for part in parts) and data_disks.of(old) == data_disks.of(new)
    return same and _volumes_of(old) == _volumes_of(new)


def _volumes_of(spec):
    """Return what the first records of new volumes depend on."""
    return [[each.get(part) for part in ("uuid", "size_gb", "boot_index", "image")] for each in volumes.of(spec)]


def _adopt(store, record, token, claim, result, dry):
    if record.token != token and not dry:
        with store.instance_lock(record.uuid, timeout=0):
            epoch = max(record.generation[0], first_epoch(store, record.uuid, claim.get("after")))
            spec = volumes.as_new(claim["spec"], record.spec)  # only the claim knows which are new
            adopted = record.next(token=token, spec=spec, generation=[epoch, record.generation[1] + 1])
            record = store.compare_and_swap(record, journal.noted(adopted, "claim", adopted=True))
        result["changed"] = True
    result.update(claimed=True, allocation=record.resources)


def _decide(host, ledger, claim, result, dry):
    try:
        request = RequestSpec.from_dict(claim["spec"])
        host.cpu_model()
        volume_claim.check_claim(host, claim["spec"])
        _check_begun(host.store, claim["spec"])
        allocation = ledger.allocate(request, claim.get("limits"))
        if not dry:
            own = without_volumes(allocation, request.document)
            record = _write(host.store, request.to_dict(), result["token"], own, claim.get("after"))
            _attach_volumes(host, record)
            failed_instances.forget(host.store, [result["uuid"]])
        ledger.take(request, allocation)
        result.update(claimed=True, changed=True, allocation=allocation)
    except BerthError as error:
        result["error"] = error.to_dict()


def _check_begun(store, spec):
    """What ended runs left of volumes is made from the same images."""
    own = volume_store.VolumeStore.beside(store)
    for entry in volumes.of(spec):
        left, image = own.read(entry["uuid"]), volumes.source(spec, entry) or {}
        begun = left and left.phase in volume_store.UNUSED and not volume_store.instance_of(left)
        if begun and left.spec.get("source_image") != image.get("name"):
            raise VolumeConflict(
                "an ended run began volume %s with another image" % left.name,
                hint=volume_hints.delete_begun_volume(left.name, left.project_id),
            )


def _attach_volumes(host, record):
    """Claim the volumes too, or drop the claim: one that nobody continues would keep them from others."""
    try:
        volume_claim.attach(host.store, record.spec, record.token)
    except BerthError:
        _drop(host, record)
        raise


def without_volumes(allocation, spec):
    """Return what the instance itself takes: new volumes count by their own records, and may outlive it."""
    more = volumes.new_gb(spec)
    return less_disk(allocation, more) if more else allocation


def first_epoch(store, uuid, after):
    """Return the epoch of a claim, not below that of any earlier owner that this host or the run knows of."""
    return max((after or [0])[0], whereabouts.epoch(store, uuid))


def _write(store, spec, token, allocation, after=None):
    record = Record(
        uuid=spec["uuid"],
        name=spec["name"],
        project_id=spec["project_id"],
        role=CLAIM,
        generation=[first_epoch(store, spec["uuid"], after), 1],
        token=token,
        phase=CLAIMED,
        spec=spec,
        resources=allocation,
        vm_state=vm_states.BUILDING,
        task_state="scheduling",
    )
    with store.instance_lock(record.uuid, timeout=0):
        return store.compare_and_swap(None, journal.noted(record, "claim"))
