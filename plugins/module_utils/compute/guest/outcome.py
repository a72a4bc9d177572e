# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings an instance to the requested state, and returns the reply of module instance: what changed, and the result."""

from __future__ import annotations

import contextlib
import json

from ...model.errors import BerthError
from ...model.safe_text import clean
from . import mend, power

SHOWN = ("state", "power_state", "flavor", "vcpus", "memory_mb", "root_gb", "disks", "volumes", "image", "networks")
AFTER = {"present": "running", "started": "running", "stopped": "shutdown", "absent": "absent", "recovered": "running"}
# States whose work may change a guest or its definition: afterwards it is compared with its record again.
COMPARED = ("disks_updated", "rebooted", "recovered", "started", "stopped")


def of(instance, wanted, dry, bring, gone=()):
    """Return {changed, instance, diff} after ``bring()``, which returns whether it changed anything.

    ``wanted``: the arguments of module instance; ``dry``: change nothing; ``gone``: what that gives up, in words.
    """
    state = wanted["state"]
    before = instance.summary()
    mended = mend.mend(instance, wanted["seed"], dry, wanted["spec"]) if wanted["mend"] and state == "present" else []
    acted = bring()
    after = _expected(before, state) if dry and acted else summary_after(instance)
    if acted and gone:
        after["gives_up"] = list(gone)
    if state == "present" or state in COMPARED and not dry:
        after.update(of_domain(instance, mended, dry))
    diff = {
        "before": _shown(before, gone, {part: has for part, _expected, has in mended}),
        "after": _shown(after, definition={part: expected for part, expected, _has in mended}),
    }
    return {"changed": acted or bool(mended), "instance": after, "diff": diff}


def _expected(before, state):
    """Return the summary as a run would leave it."""
    if state == "absent":
        return {"uuid": before["uuid"], "state": state}
    return dict(before, state=AFTER.get(state, before["state"]))


def present(instance, wanted, dry):
    """Make the instance with the requested power and packet filters. Return whether anything changed, or would."""
    if dry:
        makes = power.would_converge(instance, wanted["token"], wanted["power_state"])
        return makes or instance.filtered(wanted["spec"], dry=True)
    changed = power.converge(
        instance, wanted["token"], wanted["seed"], wanted["power_state"], wanted["shutdown_timeout"]
    )
    return instance.filtered(wanted["spec"]) or changed


def summary_after(instance):
    """Return the state after the work. If libvirt does not report it, no other host may repeat the work."""
    try:
        return instance.summary()
    except BerthError as error:
        error.retryable = False
        raise


def of_domain(instance, mended, dry):
    """For the reply about an existing instance, return what was repaired, and how the guest still differs from its
    record. Do not fail if that cannot be read: the work is done."""
    differs = {}
    with contextlib.suppress(BerthError):
        record = instance.store.read(instance.uuid)
        differs = mend.differing(instance, record) if record else {}
    if not mended:
        return {"domain_differs": differs}
    parts = ", ".join("%s %s -> %s" % (part, has or "none", expected or "none") for part, expected, has in mended)
    text = "%s: %s" % ("would be repaired" if dry else "repaired", clean(parts, 900))
    return {"mended": text, "domain_differs": {when: differs[when] for when in differs if when == "now"}}


def _shown(summary, gone=(), definition=None):
    """``gone``: what a delete removes; ``definition``: the repaired parts, {part: value}."""
    parts = {name: summary[name] for name in SHOWN if name in summary}
    if gone:
        parts["gives_up" if "name" in summary else "without_record"] = list(gone)
    if definition:
        parts["definition"] = definition
    return json.dumps(parts, indent=1, sort_keys=True) + "\n"
