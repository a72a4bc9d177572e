# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""mypy checks by the types of model/messages.py, a run by the schemas of model/reply_shapes.py: they name the same keys."""

from __future__ import annotations

import good
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model import messages, reply, reply_shapes

# What the conductor adds to a view.
OF_THE_CONDUCTOR = {"lost", "left"}


def passed(kind):
    """The good reply of this kind, as it comes through the check."""
    module, make = good.KINDS[kind]
    arguments, answer = make("h1")
    return reply.check(module, answer, "h1", arguments)


@pytest.mark.parametrize(
    ("kind", "find", "name"),
    [
        ("claims", lambda answer: answer["results"][0], "ClaimResult"),
        ("rescans", lambda answer: answer["instances"][0], "ScannedRecord"),
        ("rescans", lambda answer: answer["volumes"][0], "ScannedVolume"),
        ("rescans", lambda answer: next(iter(answer["notes"].values())), "Note"),
        ("rescans", lambda answer: next(iter(answer["notes"].values()))["known"], "KnownOwner"),
        ("rescans", lambda answer: next(iter(answer["notes"].values()))["planned"][0], "PlannedHost"),
        ("moves", lambda answer: answer["move"]["host"], "Side"),
        ("moves", lambda answer: answer["move"]["migration"]["waits_since"], "Uptime"),
    ],
)
def test_what_passes_the_check_has_the_keys_of_its_type(kind, find, name):
    assert set(find(passed(kind))) == set(getattr(messages, name).__annotations__)


def test_a_view_has_the_keys_of_its_type_in_the_schema():
    assert set(reply_shapes._VIEW) == set(messages.View.__annotations__) - OF_THE_CONDUCTOR


def test_a_migration_has_the_keys_of_its_type_in_the_schema():
    assert set(reply_shapes._OF_MIGRATION) == set(messages.Migration.__annotations__)
