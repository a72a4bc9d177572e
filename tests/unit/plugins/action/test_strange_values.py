# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever a variable holds, a run ends with an error that names it, or well: never with a traceback or Ansible's own words."""

from __future__ import annotations

import copy

import pytest
from placement_case import CATALOG, VM, controller

from ansible_collections.berth.kvm.plugins.plugin_utils import delegates, variables

pytestmark = pytest.mark.long


def nested(levels, kind):
    value = 1
    for _level in range(levels):
        value = [value] if kind is list else {"a": value}
    return value


STRANGE = {
    "a number of 5000 digits": 10**5000,
    "one in a list": [-(10**5000)],
    "one as a name": {10**5000: 1},
    "3000 lists": nested(3000, list),
    "3000 mappings": nested(3000, dict),
    "400 lists": nested(400, list),
    "infinity": float("inf"),
    "control characters": "a\x1b[31m\x07",
    "half of a character": "\udcff",
    "a list": ["a"],
    "a mapping with a number": {1: 2},
    "a set": {1},
    "bytes": b"ab",
}


@pytest.fixture(autouse=True)
def silent_hosts(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # some of these are names of files
    monkeypatch.setattr(delegates, "run_on", lambda hosts, *_rest: {host: {"changed": False} for host in hosts})


def faults(names, make):
    """The actions whose result is no answer to what ``make(name)`` has in its inventory."""
    found = []
    for name in names:
        for action, args in (("check_variables", {}), ("placement", {"instances": ["a"], "plan": True})):
            result = make(name).run(action, args)
            if result.get("failed") and not result.get("error_code"):
                found.append((name, action, str(result.get("msg"))[:200]))
    return found


@pytest.mark.parametrize("what", STRANGE)
def test_any_variable_may_hold_anything(what):
    def make(name):
        given = {name: STRANGE[what]}
        shared = name in variables.RUN
        return controller({"a": VM if shared else {**VM, **given}}, given if shared else {})

    assert not faults(sorted({*variables.RUN, *variables.INSTANCE}), make)


def paths(value, path=()):
    for name in value if isinstance(value, dict) else ():
        yield (*path, name)
        yield from paths(value[name], (*path, name))


@pytest.mark.parametrize("what", STRANGE)
def test_any_part_of_the_catalog_may_hold_anything(what):
    def make(path):
        catalog = copy.deepcopy(CATALOG)
        part = catalog
        for name in path[:-1]:
            part = part[name]
        part[path[-1]] = STRANGE[what]
        return controller({"a": {**VM, "berth_networks": ["lan"], "berth_server_group": "pair"}}, catalog)

    assert not faults(paths(CATALOG), make)


@pytest.mark.parametrize("what", ["a number of 5000 digits", "3000 lists", "400 lists"])
def test_what_is_too_large_is_refused_by_the_name_of_its_variable(what):
    result = controller({"a": {**VM, "berth_metadata": STRANGE[what]}}).run("placement", {"instances": ["a"]})
    assert (result["error_code"], result["error"]["field"]) == ("InvalidInput", "berth_metadata")


@pytest.mark.parametrize("name", ["tiny\n", "ti\tny", "ti\x1bny"])
def test_a_name_in_the_catalog_is_one_visible_line(name):
    result = controller({"a": VM}, {"berth_flavors": {name: CATALOG["berth_flavors"]["tiny"]}}).run(
        "placement", {"instances": ["a"]}
    )
    assert result["error_code"] == "InvalidInput" and "berth_flavors" in result["error"]["field"]
