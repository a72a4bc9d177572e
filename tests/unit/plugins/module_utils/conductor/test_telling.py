# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts a run tells where instances are, though it makes none."""

from __future__ import annotations

from ansible_collections.berth.kvm.plugins.module_utils.compute.record.whereabouts import Notes
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.telling import tell_owners

WEB = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
TOLD = {"hosts": {"id-2": "h2"}, "known": {"id-2": {WEB: [2, 1]}}, "gone": {}}


def digests(told):
    notes = Notes()
    notes.take_in(told)
    return notes.digests()


def test_who_lacks_the_owner_of_an_instance_is_told_and_nobody_else():
    """h1 knows all, h2 nothing yet, h3 an earlier owner, h4 did not say."""
    earlier = {**TOLD, "known": {"id-1": {WEB: [1, 4]}}}
    step = next(tell_owners(TOLD, {"h1": digests(TOLD), "h2": {}, "h3": digests(earlier), "h4": None}))
    assert step.module == "rescan" and sorted(step.arguments) == ["h2", "h3"]
    assert all(given["told"]["known"] == TOLD["known"] for given in step.arguments.values())


def test_where_nobody_lacks_anything_nobody_is_asked():
    assert list(tell_owners(TOLD, {"h1": digests(TOLD)})) == []
