# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the instances are that a run is about: on a host, nowhere, or unknown because a host is silent."""

from __future__ import annotations

from ..model.record import CLAIM, OWN
from .errors import DuplicateInstance, InstanceMoving, InstanceUnknown


def locate(fleet, name, uuid, lost_hosts=()):
    """The hosts that hold something of the instance, its owner last: [] where it is nowhere.

    Raises InstanceUnknown where it was not found and a host did not answer, unless that host is given up as lost.
    """
    places = fleet.places.get(uuid, [])
    owners = [place["host"] for place in places if place["role"] == OWN]
    claims = [place["host"] for place in places if place["role"] == CLAIM]
    moving = [place["host"] for place in places if place["role"] not in (OWN, CLAIM)]
    if len(owners) > 1:
        raise DuplicateInstance(
            "%s is owned by %s" % (name, " and ".join(owners)), hint="Find out which copy is right before anything else"
        )
    if moving:
        raise InstanceMoving(
            "%s is in the middle of a move (%s)" % (name, ", ".join(moving)), hint="Finish the move first"
        )
    silent = sorted(set(fleet.verdicts) - set(lost_hosts))
    if not owners and silent:
        raise InstanceUnknown(
            "%s is on no host that answered, and %s did not" % (name, ", ".join(silent)),
            hint="Bring the host back, or if it is gone for good pass -e berth_lost_hosts=%s" % ",".join(silent),
        )
    return claims + owners
