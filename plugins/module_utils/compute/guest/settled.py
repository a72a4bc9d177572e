# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instances of a host about which create has nothing to do, unless the inventory asks for something else."""

from __future__ import annotations

from ...model import request_digest
from ...model.errors import BerthError
from .. import paths
from ..connection import LibvirtTimeout, LibvirtUnavailable
from . import addresses, domain, live_differences, packet_filter, summary


def look(host, facts, uuids=()):
    """Return [{uuid, converged, compared, filters, address, instance}] of those of ``uuids``, or of all, that were made, are in
    no move and have the files, the definition and the packet filters of their records. ``facts``: the instances of the host's
    facts.

    ``converged``: whether the guest is on or off as the record says; ``compared``: whether its definition could be
    compared and its seed exists; ``address``: where it is reached, None if nobody knows. Change nothing; wait for nothing but an
    agent: leave out what cannot be determined.
    """
    changed = {each["uuid"] for each in facts if each.get("domain_differs") or each.get("disks_missing")}
    asked, settled = set(uuids), []
    for record in host.store.sound():
        if record.uuid in changed or asked and record.uuid not in asked:
            continue
        try:
            settled += [(record, _of(host, record))] if _is_settled(host, record) else []
        except (LibvirtTimeout, LibvirtUnavailable):
            break  # each of the others would have to wait for it again
        except (BerthError, *live_differences.DAMAGED):
            continue  # the run that works on it reports why
    known = addresses.of_instances(host.connection, [record for record, _look in settled])
    return [{**look, "address": known.get(record.uuid, {}).get("address")} for record, look in settled]


def _is_settled(host, record):
    return summary.is_made(record) and not record.op and not packet_filter.missing(host.connection, record)


def _of(host, record):
    power = domain.state(host.connection, record.uuid)
    return {
        "uuid": record.uuid,
        "converged": summary.is_as_its_record_says(host, record),
        "compared": live_differences.is_looked_at(record) and paths.has_seed(host.pool_of(record), record.uuid),
        "filters": request_digest.filters(record.spec.get("networks")),
        "instance": summary.describe(record, domain.shown_state(host.connection, record.uuid, power)),
    }
