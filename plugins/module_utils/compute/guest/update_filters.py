# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packet filters of this host's instances let in the members of the security groups that their rules name, as the
controller knows them: those that it cannot see stay let in."""

from __future__ import annotations

from ...model import admitted_members
from ...model.errors import BerthError
from ...model.lifecycle import ACTIVE, OWN
from ...model.move_errors import InstanceInvalidState
from . import packet_filter

LOCK_TIMEOUT = 30  # s: the next run updates an instance that another run holds


def follow(host, uuids, groups, dry=False):
    """For the instances ``uuids``, return (whether anything was changed, [{uuid, name, why}] of those that failed).

    ``groups``: project -> group -> {members: {uuid: addresses}, unseen: uuids}. Addresses of unseen members stay as
    they are.
    """
    changed, waiting = False, []
    for record in host.store.sound():
        if record.uuid in uuids and _names_groups(record):
            try:
                changed |= _follow(host, record.uuid, groups, dry)
            except BerthError as error:
                waiting.append({"uuid": record.uuid, "name": record.name, "why": str(error)[:500]})
    return changed, waiting


def _names_groups(record):
    nics = record.spec.get("networks") or ()
    return any(admitted_members.named(nic.get("security")) or admitted_members.of_nic(nic) for nic in nics)


def _follow(host, uuid, groups, dry):
    def swap(new):
        return host.store.compare_and_swap(host.store.read(uuid), new.next())

    with host.store.instance_lock(uuid, timeout=LOCK_TIMEOUT):
        record = host.store.read(uuid)
        if record is None:
            return False
        members = _wanted(record, groups.get(record.project_id) or {})
        if not packet_filter.let_in(host.connection, record, members):
            return False
        if record.op or (record.role, record.phase) != (OWN, ACTIVE):
            now = "%s %s%s" % (record.role, record.phase, ", in a move" if record.op else "")
            raise InstanceInvalidState(record.name, "state", now, "change the packet filter of")
        record.check_unlocked()
        return dry or packet_filter.let_in(host.connection, record, members, swap)


def _wanted(record, groups):
    """Return {group: {uuid: addresses}} for the groups that the record's rules name."""
    admitted = {}
    for nic in record.spec["networks"]:
        admitted = admitted_members.merged(admitted, admitted_members.of_nic(nic))
    wanted = {}
    for group, sent in groups.items():
        unseen = {uuid: addresses for uuid, addresses in admitted.get(group, {}).items() if uuid in sent["unseen"]}
        wanted[group] = _no_more_than_fit({**unseen, **sent["members"]})
    return wanted


def _no_more_than_fit(members):
    """Cut the members. The controller cut those it sees; the others come first: nobody can let them in again."""
    left, fitting = admitted_members.MOST_ADDRESSES, {}
    for uuid, addresses in members.items():
        if addresses[:left]:
            fitting[uuid] = addresses[:left]
            left -= len(fitting[uuid])
    return fitting
