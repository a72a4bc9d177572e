# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action set_up_registry: see plugins/modules/set_up_registry.py for its documentation."""

from __future__ import annotations

import secrets
import time

from ..module_utils.conductor.errors import RegistryUnknown
from ..module_utils.conductor.procedures.steps import Transact
from ..module_utils.conductor.registry import keys
from ..module_utils.model import registry_hints, registry_member_hints
from ..plugin_utils import registry_access, registry_members
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.screen import say

WAIT = 90  # seconds until a majority answers
PAUSE = 1


class ActionModule(ControllerAction):
    argument_spec = documented("set_up_registry")

    def act(self, args, task_vars):
        at = registry_members.addresses(task_vars)
        members, line = registry_members.members(at), registry_members.line(at)
        if self._task.check_mode:
            return {"changed": args["restored"], "line": line}
        no_users = registry_access.engine(members, args["directory"], user=None)
        controller = registry_access.engine(members, args["directory"])
        changed = args["restored"]
        if controller_is_missing(no_users, controller):
            registry_members.set_up_users(no_users, registry_members.passwords(args["directory"]))
            changed = True
        root = registry_access.engine(members, args["directory"], registry_access.ROOT)
        changed = registry_members.space_again(root) or changed
        if args["restored"]:
            controller.transact(Transact(writes=(keys.written(keys.META, closed()),)))
        say("", "The registry answers. In the inventory: %s" % line, *closing(args["restored"]), "")
        return {"changed": changed, "line": line}


def closing(restored):
    """What a restore leaves to be done."""
    return ["It is another registry now, and closed. %s." % registry_hints.compare_all_hosts()] if restored else []


def controller_is_missing(no_users, controller):
    """Wait until a majority answers. Return whether it has no users yet. Raises RegistryUnknown."""
    end = time.monotonic() + WAIT
    while True:
        if _answers(no_users):
            return True
        try:
            controller.transact(Transact(reads=(keys.META,)))
            return False
        except RegistryUnknown as error:
            if time.monotonic() > end:
                raise RegistryUnknown(error.message, hint=registry_member_hints.start_members()) from None
        time.sleep(PAUSE)


def _answers(engine):
    try:
        engine.transact(Transact(reads=(keys.META,)))
        return True
    except RegistryUnknown:
        return False


def closed():
    """A registry that is another one than before, and takes nothing until the hosts were compared with it."""
    return {"schema": keys.SCHEMA, "incarnation": secrets.token_hex(16), "kind": registry_access.KIND, "open": False}
