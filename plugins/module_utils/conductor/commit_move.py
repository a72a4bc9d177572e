# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the claim of a move stands, once all hosts were read after it: quota, group, addresses. As commit.py for a create."""

from __future__ import annotations

from typing import Mapping, Optional

from ..model import address_clash, hints
from ..model import migration as names
from ..model.errors import BerthError
from ..model.quota import Amounts
from . import groups
from .addressing import addresses
from .commit import Scan
from .errors import HostUnknown
from .moving import PlannedMove, claimed_spec, old_flavor
from .plan import Instance
from .quotas import after_the_claims

# The sequences that claim room.
CLAIMING = ("resize", "live_migrate", "resize_here", "migrate_shelved")


def needs_a_look(move: PlannedMove, quotas: Mapping[str, Amounts]) -> bool:
    """Whether all hosts must be read again after the claim, for what no host can decide alone. The claim itself has
    checked capacity, limits and anti-affinity; a migration does not change what a quota counts."""
    if move["sequence"] not in CLAIMING:
        return False
    return groups.spans_hosts(claimed_spec(move)) or (move["kind"] == names.RESIZE and bool(quotas))


def check_claim(move: PlannedMove, host: str, scans: Mapping[str, Scan], quotas: Mapping[str, Amounts]) -> None:
    """Raise what forbids the claim on ``host`` now that all hosts were read after it, as in a create.

    ``scans``: host -> {instances: [record]}, without ``instances`` if the host did not answer. Of two runs that claim
    and then read, at least one sees the other, and a run that sees another gives way.
    """
    held = {name: scan["instances"] for name, scan in scans.items() if "instances" in scan}
    if host not in held:
        raise HostUnknown("%s did not answer after the claim of %s" % (host, move["name"]), hint=hints.run_again())
    spec = claimed_spec(move)
    follow = move.get("goes_with", {})
    others = {name: [each for each in records if follow.get(each["uuid"]) != name] for name, records in held.items()}
    error: Optional[BerthError] = address_clash.clash(spec, addresses(held)) or groups.violation(
        spec, groups.elsewhere(spec, host, others)
    )
    if not error and move["kind"] == names.RESIZE and quotas:
        instance: Instance = {
            "uuid": move["uuid"],
            "project": spec["project_id"],
            "spec": spec,
            "old_flavor": old_flavor(move),
        }
        replies = [scan for scan in scans.values() if "instances" in scan]
        error = after_the_claims(quotas)([instance], replies).get(move["uuid"])
    if error:
        raise error
