# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Queries in JMESPath over documents of one form."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model import host_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.placement import jmespath_query
from ansible_collections.berth.kvm.plugins.module_utils.placement.jmespath_query import Query, QueryLibraryMissing

FORM = {"name": "web1", "on": True, "flavor": {"vcpus": 1}, "volumes": [{"name": "db", "size_gb": 1}], "metadata": {}}
DOCUMENT = {**FORM, "flavor": {"vcpus": 0}, "metadata": {"tier": "gold"}}


@pytest.mark.parametrize(
    "text, holds",
    [
        ("name == 'web1'", True),
        ("name != 'web1'", False),
        ("!on", False),
        ("metadata.tier == 'gold' && metadata.other == `null`", True),
        ("metadata.other", False),
        ("volumes[?size_gb > `0` && starts_with(name, 'd')]", True),
        ("volumes[0].size_gb > `3` || length(volumes[*].name) == `2`", False),
        ("sort_by(volumes, &size_gb)[0].name == 'db'", True),
        ("[name, flavor][0] == 'web1'", True),
    ],
)
def test_a_document_is_chosen_by_what_jmespath_takes_for_true(text, holds):
    assert Query(text, "where", FORM).holds(DOCUMENT) is holds


@pytest.mark.parametrize(
    "text, told",
    [
        ("", "a query in JMESPath"),
        (4096, "a query in JMESPath"),
        (["name"], "a query in JMESPath"),
        ("name = 'web1'", "Unknown token '=' at character 6"),
        ("name == 'web1", "Unclosed ' delimiter at character 9"),
        ("name &&", "Incomplete expression at character 8"),
        ("nmae != 'web1'", "no key nmae, and text is written 'nmae'). Did you mean name?"),
        ("flavor.vcpu != `1`", "no key vcpu, and text is written 'vcpu'). Did you mean vcpus?"),
        ("volumes[?nam != 'db']", "no key nam, and text is written 'nam'). Did you mean name?"),
        ("volumes.name != 'db'", ".name follows a mapping; it follows a list"),
        ("name.first != 'x'", ".first follows a mapping; it follows no mapping"),
        ("flavor.vcpus != '1'", "a number is written `4096`"),
        ("name != `5`", "a number is written `4096`"),
        ("on == 'true'", "a number is written `4096`"),
        ("contain(name, 'w')", "there is no contain()). Did you mean contains?"),
        ("`true`", "asks for at least one of name, on"),
        ("@", "asks for at least one of name, on"),
        ("name == 'web1' || 'web2'", "a query whose parts may be false"),
        ("[name == 'web1']", "a query whose parts may be false"),
        ("on && {a: name == 'web1'}", "a query whose parts may be false"),
    ],
)
def test_a_query_that_cannot_be_meant_is_refused_before_a_document_is_read(text, told):
    with pytest.raises(InvalidInput) as refused:
        Query(text, "berth_where", FORM)
    said = refused.value.to_result()["msg"]
    assert told in said and said.startswith("InvalidInput: berth_where: ")


@pytest.mark.parametrize("text", ["contains(name)", "metadata.tier > `1`", "abs(name) == `1`"])
def test_a_query_that_cannot_be_evaluated_selects_nothing_and_says_why(text):
    with pytest.raises(InvalidInput) as refused:
        Query(text, "berth_where", FORM).holds(DOCUMENT)
    assert "a query that can be evaluated: " in refused.value.rule


@pytest.mark.parametrize(
    "text, rule", [("flavor.vcpus", "a comparison"), ("length(volumes)", "a comparison"), ("flavor", "a part")]
)
def test_a_number_or_a_mapping_is_no_condition_since_it_would_hold_for_all(text, rule):
    with pytest.raises(InvalidInput) as refused:
        Query(text, "berth_where", FORM).holds(DOCUMENT)
    assert rule in refused.value.rule


def test_deep_queries_are_refused_as_such():
    with pytest.raises(InvalidInput):
        Query("(" * 5000 + "name" + ")" * 5000, "berth_where", FORM)


@pytest.mark.follows("install_on_controller")
def test_without_the_library_a_query_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(jmespath_query, "jmespath", None)
    with pytest.raises(QueryLibraryMissing) as refused:
        Query("name == 'web1'", "berth_where", FORM)
    assert refused.value.hint == host_hints.install_on_controller(jmespath_query.REQUIREMENT)
    root = Path(__file__).parents[5]
    assert jmespath_query.REQUIREMENT in (root / "requirements.txt").read_text("utf-8").splitlines()
