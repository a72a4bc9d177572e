# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch (berth_count) after its claims: it is built when enough of it have theirs, and else nothing of it is. Once a build
has ended well, the others stay whatever becomes of one, as in Nova.
"""

from __future__ import annotations

from ..model import input_hints
from ..model.errors import BerthError
from .plan import ACTIVE, BUILDING, CLAIMING, FAILED, Plan, fail, withdraw_claim


class BatchWithdrawn(BerthError):
    """The instance was asked for together with others (berth_count), and fewer than that can be had: none was built."""


def settle(plan: Plan) -> bool:
    """Give the batch up if too few of it can be had. Return whether its builds have to wait for claims that are tried again."""
    least, batch = plan.get("least", 0), plan["instances"].values()
    built = any(instance["state"] == ACTIVE and not instance.get("existing") for instance in batch)
    if not least or built:
        return False
    failed = [instance for instance in batch if instance["state"] == FAILED]
    waiting = [instance for instance in batch if instance["state"] in (CLAIMING, BUILDING)]
    if len(batch) - len(failed) >= least:
        return any(instance["state"] == CLAIMING for instance in waiting)
    first = failed[0]
    why = "%s could not be had: %s" % (first["name"], (first["error"] or {}).get("message"))
    for instance in waiting:
        if instance["state"] == BUILDING:
            withdraw_claim(plan, instance)
        text = "%s is one of %d that were asked for together, of which at least %d have to be made. %s"
        fail(
            instance,
            BatchWithdrawn(text % (instance["name"], len(batch), least, why), hint=input_hints.accept_fewer()),
        )
    return False
