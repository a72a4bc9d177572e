# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of a name that no instance has: the names like it, none of them as the one that is meant."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor.similar_names import similar, similar_instances
from ansible_collections.berth.kvm.plugins.module_utils.model import input_hints

THREE = ["app-1", "app-2", "app-3"]


@pytest.mark.parametrize(
    "name, names, counted",
    [
        ("app", [*THREE, "db", "app-x"], THREE),
        ("app", ["app-%d" % number for number in range(1, 13)], ["app-%d" % number for number in range(1, 13)]),
        ("app", ["app-1", "app-3"], ["app-1", "app-3"]),
        (
            "app.example.org",
            ["app-1.example.org", "app-2.example.org", "app-3"],
            ["app-1.example.org", "app-2.example.org"],
        ),
        ("a.p", ["a-1.p", "axp-1"], ["a-1.p"]),
    ],
)
def test_all_that_a_count_made_of_the_name_are_told_in_their_order(name, names, counted):
    assert similar_instances(name, names) == input_hints.select_counted(name, counted)


@pytest.mark.parametrize(
    "counted, said",
    [
        (
            THREE,
            "There are app-1, app-2, app-3. Select all with -e berth_name=app -e berth_count=3, or one with its own name",
        ),
        (["app-1", "app-3"], "There are app-1, app-3. Select each with its own name in -e berth_name"),
        (["app-2", "app-3"], "There are app-2, app-3. Select each with its own name in -e berth_name"),
        (["app-1"], "There is app-1. Select it with its own name in -e berth_name"),
    ],
)
def test_a_count_is_advised_only_where_it_selects_those_that_there_are(counted, said):
    assert input_hints.select_counted("app", counted).startswith(said)


@pytest.mark.parametrize(
    "name, names, said",
    [
        ("app-4", THREE, "Similar names: app-1, app-2, app-3"),
        ("APP-1", ["app-1", "zz"], "Similar names: app-1"),
        ("wbe1", ["web1", "mail"], "Similar names: web1"),
        ("x", ["web1", "mail"], "Known: mail, web1"),
        ("x", [], "There are none"),
    ],
)
def test_similar_names_are_told_and_none_as_the_one_that_is_meant(name, names, said):
    assert similar_instances(name, names) == similar(name, names) == said
