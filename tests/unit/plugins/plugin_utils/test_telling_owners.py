# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts a run tells where instances are, though it makes none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.record.whereabouts import Notes
from ansible_collections.berth.kvm.plugins.plugin_utils import telling_owners

WEB = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
TOLD = {"hosts": {"id-2": "h2"}, "known": {"id-2": {WEB: [2, 1]}}, "gone": {}}


def digests(told):
    notes = Notes()
    notes.take_in(told)
    return notes.digests()


@pytest.fixture
def asked(monkeypatch):
    """asked(check_mode) -> {host: what it is told}; h1 knows all, h2 nothing yet, h3 an earlier owner, h4 did not say."""
    earlier = {**TOLD, "known": {"id-1": {WEB: [1, 4]}}}
    answers = {
        "h1": {"digests": digests(TOLD)}, "h2": {"digests": {}}, "h3": {"digests": digests(earlier)}, "h4": {},
    }  # fmt: skip
    monkeypatch.setattr(telling_owners, "replies", lambda _vars, _name: answers)

    def ask(check_mode):
        said = {}
        monkeypatch.setattr(
            telling_owners,
            "ask",
            lambda _action, _vars, hosts, _module, _args, own: said.update({host: own["told"][host] for host in hosts}),
        )
        action = SimpleNamespace(_task=SimpleNamespace(check_mode=check_mode))
        telling_owners.tell_owners(action, {}, TOLD, list(answers))
        return said

    return ask


def test_who_lacks_the_owner_of_an_instance_is_told_and_nobody_else(asked):
    told = asked(False)
    assert sorted(told) == ["h2", "h3"]
    assert all(part["known"] == TOLD["known"] for part in told.values())


def test_in_check_mode_nobody_is_told(asked):
    assert asked(True) == {}
