# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a guest that is off may start from the disks that are there."""

from __future__ import annotations

from ..disk import disk_chain, owner


def check(host, record):
    """It starts from its own disks, which no other host owns, or not at all.

    On storage that hosts share, another one may have taken them over while this host was away: what its record says is old then.
    """
    pool_path = host.pool_path(record.spec.get("pool"))
    owner.check(pool_path, record.uuid, host.identify())
    disk_chain.check_start(host.connection, record, pool_path, host.connection.getHostname())
