# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of filters and weighers that are wrong: a verdict that names class and host, or an error at once (S34)."""

from __future__ import annotations

import sys

import ansible_collections
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.placement.base import Filter, Weigher
from ansible_collections.berth.kvm.plugins.module_utils.placement.errors import (
    PluginFailed,
    SchedulerHostFilterNotFound,
)
from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations

HOSTS = [{"host": name, "vcpus": 4, "memory_mb": 4096, "local_gb": 50} for name in "abc"]
REQUEST = {"uuid": "u", "name": "web", "flavor": {"vcpus": 1, "memory_mb": 64}}


def weigher(raw, **more):
    parts = {"raw": raw, "multiplier_option": "bad_weight", "options": {"bad_weight": 1.0}, **more}
    return type("BadWeigher", (Weigher,), parts)


def place(plugin):
    name = plugin.__name__
    options = {"enabled_filters": [name]} if issubclass(plugin, Filter) else {"weight_classes": [name]}
    return select_destinations(HOSTS, [REQUEST], options, plugins=[plugin], explain=True).requests[0]


def refused(answer, name):
    """{host: reason} by the plugin."""
    steps = [filter_ for filter_ in answer.explanation["instances"][0]["filters"] if filter_["filter"] == name]
    return {host: verdict.reason for step in steps for host, verdict in step["verdicts"].items() if not verdict.passed}


@pytest.mark.parametrize(
    "bad, told",
    [
        (lambda: 1 / 0, "raised ZeroDivisionError"),
        (lambda: None, "TypeError"),
        (lambda: "1", "TypeError"),
        (lambda: float("nan"), "not finite"),
        (lambda: float("inf"), "not finite"),
        (lambda: 10**400, "OverflowError"),
        (sys.exit, "raised SystemExit"),
    ],
    ids=["raises", "None", "text", "NaN", "infinite", "no float", "ends the program"],
)
def test_a_weigher_that_fails_on_one_host_leaves_the_others(bad, told):
    answer = place(weigher(lambda self, host, spec: bad() if host.host == "a" else 1.0))
    (reason,) = refused(answer, "BadWeigher").values()
    assert answer.hosts == ["b"] and reason.startswith("BadWeigher raised") and "on a" in reason and told in reason


def test_a_weigher_that_fails_only_on_all_hosts_together_refuses_them_all():
    answer = place(weigher(None, weigh=lambda self, hosts, spec: [1.0]))
    assert answer.hosts == [] and answer.error.code == "NoValidHost"
    assert set(refused(answer, "BadWeigher")) == {"a", "b", "c"}


@pytest.mark.parametrize("value", [None, (True, "x"), 1], ids=["None", "a tuple", "a number"])
def test_a_filter_that_gives_no_verdict_refuses_with_what_it_gave(value):
    answer = place(type("BadFilter", (Filter,), {"check": lambda self, host, spec: value}))
    assert answer.hosts == [] and "not a Verdict" in refused(answer, "BadFilter")["a"]


def broken(self, options):
    raise RuntimeError("no such device")


@pytest.mark.parametrize(
    "plugin, told",
    [
        (type("BadFilter", (Filter,), {"__init__": broken}), "no such device"),
        (weigher(None, __init__=broken), "no such device"),
        (weigher(None, multiplier_option="misspelt"), "misspelt"),
        (weigher(None, options=["bad_weight"]), "names and defaults"),
    ],
    ids=[
        "a filter's constructor",
        "a weigher's constructor",
        "a multiplier that is no option",
        "options that are a list",
    ],
)
def test_a_class_that_cannot_be_made_is_an_error_that_names_it(plugin, told):
    with pytest.raises(PluginFailed, match=plugin.__name__) as caught:
        place(plugin)
    assert told in str(caught.value)


@pytest.fixture
def collection(tmp_path, monkeypatch):
    """Writes a module as filter other.coll.mine."""
    directory = tmp_path / "other" / "coll" / "plugins" / "module_utils" / "placement" / "filters"
    directory.mkdir(parents=True)
    monkeypatch.setattr(ansible_collections, "__path__", [*ansible_collections.__path__, str(tmp_path)])
    yield lambda text: (directory / "mine.py").write_text(text, encoding="utf-8")
    for name in [module for module in sys.modules if module.startswith("ansible_collections.other")]:
        del sys.modules[name]


BASE = "from ansible_collections.berth.kvm.plugins.module_utils.placement.base import Filter\n"


@pytest.mark.parametrize(
    "text, told",
    [
        ("import a_library_that_is_missing\n", "a_library_that_is_missing"),
        ("def check(:\n", "SyntaxError"),
        ("x = 1\n", "it has none"),
        (BASE + "class A(Filter): pass\nclass B(Filter): pass\n", "it has A, B"),
    ],
    ids=["missing library", "syntax", "no class", "two classes"],
)
def test_a_module_that_is_there_but_wrong_says_what_is_wrong(collection, text, told):
    collection(text)
    with pytest.raises(PluginFailed, match="other.coll.mine") as caught:
        select_destinations(HOSTS, [REQUEST], {"enabled_filters": ["other.coll.mine"]})
    assert told in str(caught.value)


def test_a_module_that_is_not_there_says_where_it_was_looked_for():
    with pytest.raises(SchedulerHostFilterNotFound) as caught:
        select_destinations(HOSTS, [REQUEST], {"enabled_filters": ["other.coll.typo"]})
    assert "ansible_collections/other/coll/plugins/module_utils/placement/filters/typo.py" in str(
        caught.value.to_dict()
    )


def test_a_filter_that_ends_the_program_refuses_with_that():
    answer = place(type("BadFilter", (Filter,), {"check": lambda self, host, spec: sys.exit(3)}))
    assert answer.hosts == [] and "raised SystemExit" in refused(answer, "BadFilter")["a"]


def test_what_a_plugin_changes_in_the_request_no_other_plugin_sees():
    def check(self, host, spec):
        spec.flavor.extra_specs["aggregate_instance_extra_specs:ssd"] = "true"
        return True

    plugin = type("BadFilter", (Filter,), {"check": check})
    names = ["BadFilter", "AggregateInstanceExtraSpecsFilter"]
    answer = select_destinations(HOSTS, [REQUEST], {"enabled_filters": names}, plugins=[plugin])
    assert answer.requests[0].hosts and "extra_specs" not in REQUEST["flavor"]
