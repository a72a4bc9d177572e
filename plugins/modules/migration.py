#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: migration
version_added: 0.1.0
short_description: "Internal: run the steps of a resize or migration on a host"
description:
  - Runs steps of a move on the KVM host that the task runs on. The roles C(resize), C(confirm_resize),
    C(revert_resize),
    C(cold_migrate) and C(live_migrate) call it on the source and the destination in the order that keeps the instance
    safe. It is rarely used by itself.
  - Every step looks at the record first. Steps that are already done are skipped, so the same list can be run again
    after a crash.
  - Without O(steps) it only reports what this host holds of the instance.
options:
  uuid:
    description: The instance.
    type: str
    required: true
  steps:
    description:
      - The steps to run, in this order.
      - C(take_over) continues in the background when the module has ended, until the source has given up the instance or another run
        has taken over the move.
    type: list
    elements: str
    default: []
    choices: [begin, claim, receive, presend, freeze, thaw, send, release, acquire, start, confirm, purge, finish,
      see_kept, revert,
      give_back, take_back, reclaim, abort, erase, forget, grow, resize_here, restore_here, drop_old, receive_seed, send_seed, prepare_live,
      inspect_live, check_live, follow_live, migrate_live, verify_live, tell, take_over]
  token:
    description: The operation and its attempt, as the first step returned them.
    type: dict
    default: {}
    suboptions:
      op:
        description: The id of the operation.
        type: str
      attempt:
        description: The number of the attempt.
        type: int
        default: 0
  peer:
    description: What the last step on the other host returned as RV(move).
    type: dict
    default: {}
  kind:
    description: What begins.
    type: str
    choices: [resize, migration, live-migration]
    default: resize
  spec:
    description:
      - The request with the flavor that the instance shall have, as placement decided on it.
      - The destination builds the guest from this request, and refuses a source whose O(peer) has a different one
        (C(SourceDiffers)).
    type: dict
  limits:
    description: The limits of the decision, tested again where room is claimed.
    type: dict
    default: {}
  source:
    description: The host it leaves, its C(uuid) and C(name) in the inventory. Needed where room is claimed.
    type: dict
  lost:
    description: The other host of the move is lost for good, or was declared lost before. Continue without it.
    type: bool
    default: false
  changed_disks:
    description: Remove the instance even if its guest's disks are not those of its record, such as after a snapshot.
    type: bool
    default: false
  revert_volumes:
    description: Revert even if the move copied volumes. Everything written to them since the move is lost.
    type: bool
    default: false
  when_due:
    description: Confirm only if the confirm window is over, by the time since this host's boot.
    type: bool
    default: false
  crashed:
    description: Confirm even if the guest is known to have crashed. Ignored with O(when_due).
    type: bool
    default: false
  destination:
    description: The host it goes to, its C(uuid) and C(name) in the inventory.
    type: dict
  confirm_window:
    description: Seconds after which an unconfirmed resize is confirmed by the playbook C(confirm_due). 0 is never.
    type: int
    default: 0
  key:
    description: The one-time key of the transfer, 64 hexadecimal digits.
    type: str
  bandwidth:
    description: The most that is copied per second, in MiB. 0 is no limit.
    type: int
    default: 0
  copy_while_running:
    description: Whether disks are copied while the guest still runs, so that only the rest is copied when it is
      stopped.
    type: bool
    default: true
  stop_timeout:
    description: Seconds that the guest has to shut down before it is powered off. On the host that receives disks, the
      ports stay open this much longer before they are closed because no copy is in progress.
    type: int
    default: 60
  timeout:
    description: Seconds that a live migration may take before O(timeout_action), from the end of the first copy of the
      disks. 0 is no limit.
    type: int
    default: 0
  timeout_action:
    description:
      - What is done then. V(abort) leaves the guest running where it is.
      - V(force_complete) stops the guest until it has arrived, so that it cannot write faster than is copied, and lifts the
        limit on the bandwidth.
    type: str
    choices: [abort, force_complete]
    default: abort
  max_pause:
    description: Seconds for which V(force_complete) may stop the guest. If what is left takes longer, the migration is
      aborted and the guest goes on where it is.
    type: int
    default: 60
  permit_auto_converge:
    description: Whether libvirt may slow the guest down if it writes memory faster than is copied.
    type: bool
    default: true
  tls:
    description: Whether a live migration is encrypted. Without it the guest's memory can be read on the network.
    type: bool
    default: true
extends_documentation_fragment:
  - berth.kvm.host
  - berth.kvm.host.by
  - berth.kvm.host.registry
"""

EXAMPLES = "\n[]\n"
RETURN = r"""
move:
  description:
    - The record after the last step, and what the steps reported.
    - C(health), C(state) and C(seen) are what is known about the guest at its confirm. C(state) is C(answers) (its agent does),
      C(no panic seen) (on its console), C(crashed), C(off) or C(not looked at).
    - C(downtime_ms) is for how many milliseconds the guest of a live migration stood still, null where that is not known.
  returned: success
  type: dict
  sample: {role: OWN, phase: resized, attempt: 1, vm_state: resized, task_state: null}
token:
  description: The token that the following steps need.
  returned: success
  type: dict
  sample: {op: 1f0c2a9e, attempt: 1}
took:
  description: How many seconds each step took, in the order in which they ran.
  returned: success
  type: dict
  sample: {presend: 61.2, freeze: 3.1, send: 0.8, release: 0.1}
"""

import json
import signal
import time

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute.errors import failing
from ..module_utils.compute.move import listener, rehearsal
from ..module_utils.compute.move.listener import Detached
from ..module_utils.compute.move.moving_host import MovingHost
from ..module_utils.compute.move.steps.common import view
from ..module_utils.compute.move.steps.table import STEPS, run
from ..module_utils.compute.record import journal, registry_mark
from ..module_utils.compute.record.store import Store
from ..module_utils.model.migration import SAID, TAKING
from ..module_utils.model.move_errors import RunEnded

SPEC = {
    "uuid": {"type": "str", "required": True},
    "steps": {"type": "list", "elements": "str", "default": [], "choices": list(STEPS)},
    "token": {
        "no_log": False,
        "type": "dict",
        "default": {},
        "options": {"op": {"type": "str"}, "attempt": {"type": "int", "default": 0}},
    },
    "peer": {"type": "dict", "default": {}},
    "kind": {"type": "str", "default": "resize", "choices": ["resize", "migration", "live-migration"]},
    "spec": {"type": "dict"},
    "limits": {"type": "dict", "default": {}},
    "source": {"type": "dict"},
    "lost": {"type": "bool", "default": False},
    "changed_disks": {"type": "bool", "default": False},
    "revert_volumes": {"type": "bool", "default": False},
    "when_due": {"type": "bool", "default": False},
    "crashed": {"type": "bool", "default": False},
    "destination": {"type": "dict"},
    "confirm_window": {"type": "int", "default": 0},
    "key": {"type": "str", "no_log": True},
    "bandwidth": {"type": "int", "default": 0},
    "copy_while_running": {"type": "bool", "default": True},
    "stop_timeout": {"type": "int", "default": 60},
    "timeout": {"type": "int", "default": 0},
    "timeout_action": {"type": "str", "default": "abort", "choices": ["abort", "force_complete"]},
    "max_pause": {"type": "int", "default": 60},
    "permit_auto_converge": {"type": "bool", "default": True},
    "tls": {"type": "bool", "default": True},
    "by": {"type": "dict"},
    "registry": registry_mark.OPTION,
}
# This step continues in the background: it waits for what the other host does next.
WAITING = "take_over"
# These open ports for a copy, with a process beside them that closes the ports when nobody uses them.
OPENING = {"receive", "receive_seed"}
SHOWN = ("role", "phase", "vm_state", "task_state", "power_state")
# The module's arguments that a step gets, beside OPTIONS.
ARGUMENTS = (
    "kind", "spec", "limits", "source", "lost", "when_due", "changed_disks", "revert_volumes", "crashed",
    "destination", "confirm_window", "key", "stop_timeout",
)  # fmt: skip
OPTIONS = (
    "bandwidth", "copy_while_running", "max_pause", "permit_auto_converge", "timeout", "timeout_action", "tls",
)  # fmt: skip


def attempt(host, uuid, step, token, peer, **options):
    """Run a step. If the run that asked for it has ended meanwhile, resume the guest that was stopped for it."""
    try:
        return run(host, uuid, step, token, peer, **options)
    except RunEnded:
        run(host, uuid, "thaw", token)
        raise


def act(module):
    parameters = module.params
    if module.check_mode:
        return would_act(parameters)
    uuid, token, steps = parameters["uuid"], parameters["token"], parameters["steps"]
    waiter = Detached(lambda token: run(MovingHost(), uuid, WAITING, token)) if WAITING in steps else None
    opens = OPENING.intersection(steps)
    listening = Detached(listener.guard, longest=listener.LONGEST_SECONDS) if opens else None
    # With a terminal in between, the end of the run is a signal; repair what was begun before ending.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    host = MovingHost()
    move, changed, took = view(host, uuid), False, {}
    before = shown(move)
    if "migrate_live" in parameters["steps"] and not parameters["tls"]:
        module.warn("TLS is off: memory and disks of %s go over the network for everybody there to read" % uuid)
    for step in steps:
        if step == WAITING:
            waiter.go(token)
            continue
        began = time.monotonic()
        did, now = attempt(
            host, uuid, step, token, parameters["peer"], sent=move.get("sent"), **arguments_of_step(parameters)
        )
        if step == "migrate_live" and host.effects.was_forced():
            module.warn("the time limit was over: the guest of %s was stopped until it had arrived" % uuid)
        while host.effects.warnings:
            module.warn(host.effects.warnings.pop())
        changed, took[step] = changed or did, round(time.monotonic() - began, 3)
        if step in OPENING and now.get("targets"):
            listening.go(listener.to_guard(uuid, now["targets"], parameters["stop_timeout"]))
        if step in TAKING:
            # Only these steps hand out an attempt: after others, a fenced run would follow the one that fenced it.
            token = {"op": token["op"], "attempt": now["attempt"]}
        move = dict({name: move[name] for name in SAID if name in move}, **now)
    diff = {"before": before, "after": shown(move)}
    return {"changed": changed, "move": move, "token": token, "took": took, "diff": diff}


def would_act(parameters):
    """In check mode, the checks of the steps; ``move`` is what the checks of the other host need to see."""
    host, uuid = MovingHost(), parameters["uuid"]
    as_it_is = shown(view(host, uuid))
    changed, move, token = rehearsal.rehearse(
        host, uuid, parameters["steps"], parameters["token"], parameters["peer"], **arguments_of_step(parameters)
    )
    diff = dict.fromkeys(("before", "after"), as_it_is)
    return {"changed": changed, "move": move, "token": token, "took": {}, "diff": diff}


def arguments_of_step(parameters):
    return {
        **{name: parameters[name] for name in ARGUMENTS},
        "options": {name: parameters[name] for name in OPTIONS},
    }


def shown(move):
    """Return what a diff shows of a record; empty if there is none."""
    if not move["role"]:
        return ""
    parts = {name: move[name] for name in SHOWN}
    parts.update(host=move["host"]["name"], flavor=(move["spec"].get("flavor") or {}).get("name"))
    return json.dumps(parts, indent=1, sort_keys=True) + "\n"


def main():
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    journal.act_for(module.params["by"])
    registry_mark.act_over(module.params["registry"])
    with failing(module):
        if module.params["steps"]:
            registry_mark.check(Store())
        result = act(module)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
