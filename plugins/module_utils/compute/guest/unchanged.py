# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances of a host already match the inventory, so that they need no module run of their own."""

from __future__ import annotations

from ...model import data_disks, hints, volumes
from ...model.errors import BerthError
from ..connection import LibvirtTimeout, LibvirtUnavailable
from . import mend, power
from .instance import Instance
from .live_differences import DAMAGED

MOST_WARNINGS = 50  # fewer than a reply may have: with more of them the whole reply would count as none


def look(host, wanted):
    """([{uuid, unchanged, instance}], warnings) on ``wanted`` [{uuid, spec, power_state, mend}]. Nothing is changed, and no other
    run is waited for: what cannot be said at once counts as changed, and has no warnings."""
    found, warnings = [], []
    for each in wanted:
        instance, said = Instance(host, each["uuid"], timeout=0), []
        try:
            same = not has_to_do(instance, each["spec"], each.get("power_state"), each.get("mend"))
            shown, said = (instance.summary(), differences(instance, each["spec"])) if same else (None, [])
        except (LibvirtTimeout, LibvirtUnavailable):
            break  # it would be waited for again with each of the others, of which nothing is said either
        except (BerthError, *DAMAGED):
            same, shown = False, None  # its own run says why
        if len(warnings) + len(said) > MOST_WARNINGS:
            same, shown, said = False, None, []
        warnings += said
        found.append({"uuid": each["uuid"], "unchanged": same, "instance": shown})
    return found, warnings


def has_to_do(instance, spec, power_state, mends):
    """Whether a run that wants the instance present would change it, or has to tell what somebody changed in libvirt."""
    if would_change(instance, None, spec, power_state) or mends and mend.mend(instance, dry=True):
        return True
    return bool(mend.differing(instance, instance.store.read(instance.uuid)))


def would_change(instance, token, spec, power_state):
    """Whether a run that wants the instance present would change it, but for its definition in libvirt."""
    return power.would_converge(instance, token, power_state) or instance.filtered(spec, dry=True)


def differences(instance, spec):
    """Warnings where the instance is not what the inventory says by now."""
    record = instance.store.read(instance.uuid)
    if not spec or record is None:
        return []
    parts = [
        part
        for part in ("flavor", "image")
        if (record.spec.get(part) or {}).get("name") != (spec.get(part) or {}).get("name")
    ]
    disks = data_disks.difference(record.name, data_disks.shown(record.spec), data_disks.shown(spec))
    boot = volumes.boot_difference(record.name, volumes.boots_from(record.spec), spec)
    own = volumes.difference(record.name, volumes.shown(record.spec), volumes.going(record.spec), spec)
    said = ["instance %s %s" % (record.name, different) for different in (disks, boot, own) if different]
    return said + [
        "instance %s has %s %s, the inventory says %s. Nothing was changed about it. %s"
        % (
            record.name,
            part,
            record.spec[part].get("name"),
            spec[part].get("name"),
            hints.resize_to_follow(record.name) if part == "flavor" else "",
        )
        for part in parts
        if spec.get(part)
    ]
