# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds several instances on this host in parallel. Each build has the result and the reply of a run of its own."""

from __future__ import annotations

from ...model.errors import BerthError
from .. import side_by_side
from ..host import settings
from ..host.host import Host
from . import outcome, power
from .instance import Instance
from .take_over import take_over, would_take_over

LIMIT = 5 * 3600  # s: a hung build ends before the controller gives up the host, so that the others are reported
ENDED = {"failed": True, "msg": "the process that built it ended before it was done, or took longer than 5 hours"}


def build(wanted, dry):
    """Return [{uuid, reply}] for ``wanted``, each one of the builds of module build_instances. ``dry``: change nothing."""
    at_once = settings.load().max_concurrent_builds
    replies = side_by_side.run(lambda each: _build(each, dry), wanted, at_once, LIMIT)
    return [{"uuid": each["uuid"], "reply": reply or ENDED} for each, reply in zip(wanted, replies)]


def _build(wanted, dry):
    try:
        instance = Instance(Host.here(wanted["state"]), wanted["uuid"], timeout=wanted["timeout"])
        bring = _taken_over if wanted["state"] == "taken_over" else outcome.present
        return outcome.of(instance, wanted, dry, lambda: bring(instance, wanted, dry))
    except BerthError as error:
        return {"failed": True, **error.to_result()}
    except Exception as error:  # pylint: disable=broad-exception-caught
        # like a module that crashed: it ends only this build
        return {"failed": True, "msg": "%s: %s" % (type(error).__name__, error)}


def _taken_over(instance, wanted, dry):
    asked = instance, wanted["token"], wanted["disks_of"]
    return would_take_over(*asked) if dry else take_over(*asked, wanted["power_state"] == power.OFF)
