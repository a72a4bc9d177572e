# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host may cost: seconds, and the size and depth of its reply."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import yaml

from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.reply import InvalidReply
from ansible_collections.berth.kvm.plugins.plugin_utils import host_limits, host_reply


class Known(dict):
    """Host -> its variables, as Ansible's hostvars has them."""

    _loader = None

    def raw_get(self, host):
        return self[host]


def deep(levels):
    value = 1
    for _level in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "reply, much",
    [
        ({"changed": False, "results": [{"a": "b"}] * 1000}, None),
        (deep(host_limits.DEPTH - 1), None),
        (deep(host_limits.DEPTH), "more than 32 levels"),
        (deep(100_000), "more than 32 levels"),
        ({"a": "x" * (host_limits.BYTES + 1)}, "more than 16 MiB of text"),
        ({"x" * (host_limits.BYTES + 1): 1}, "more than 16 MiB of text"),
        ([["x" * 4096] * 2500] * 2, "more than 16 MiB of text"),
        ([[]] * (host_limits.PARTS + 1), "more than 1000000 parts"),
    ],
    ids=["usual", "as deep as may be", "too deep", "very deep", "text", "name", "texts", "parts"],
)
def test_a_reply_has_a_limit_of_size_parts_and_depth(reply, much):
    assert host_limits.excess(reply) == much


def test_each_host_has_its_own_seconds():
    task_vars = {"hostvars": Known(h1={}, h2={"berth_host_timeout": "120"}, h3={"berth_host_timeout": 1})}
    assert host_limits.host_timeouts(task_vars, ["h1", "h2", "h3", "new"]) == {"h1": 60, "h2": 120, "h3": 1, "new": 60}


@pytest.mark.parametrize("value", [0, -1, "soon", 86401, None, 1.5, [], "1e3", True])
def test_seconds_that_are_none_are_refused_by_name(value):
    with pytest.raises(InvalidInput) as caught:
        host_limits.host_timeouts({"hostvars": Known(h1={"berth_host_timeout": value})}, ["h1"])
    assert (caught.value.field, caught.value.rule) == ("berth_host_timeout", "whole seconds from 1 to 86400")


@pytest.mark.parametrize(
    "results", [deep(200), deep(100_000), [[]] * (host_limits.PARTS + 1)], ids=["deep", "abyss", "many"]
)
def test_a_reply_with_too_much_is_refused_before_anything_reads_it(results):
    with pytest.raises(InvalidReply) as caught:
        host_reply._plain_reply("claim", "h1", {"results": results})
    assert "h1: the whole is not valid" in str(caught.value) and caught.value.rule == host_limits.RULE


def test_what_takes_long_has_hours_beside_the_hosts_seconds():
    task_vars = {"hostvars": Known(h1={"berth_host_timeout": 7})}
    assert host_limits.task_seconds(task_vars, "h1", "rescan") == 7
    assert host_limits.task_seconds(task_vars, "h1", "migration") == 7 + 72 * 3600


@pytest.mark.parametrize("name", ["build_instances", "instance", "instance_copy"])
def test_what_waits_for_a_guest_to_shut_down_has_the_longest_time_that_a_guest_may_have_and_its_own_waits(name):
    module = importlib.import_module("ansible_collections.berth.kvm.plugins.modules." + name)
    waits = yaml.safe_load(module.DOCUMENTATION)["options"].get("timeout", {}).get("default", 0)
    assert host_limits.task_seconds({"hostvars": {}}, "h1", name) > 86400 + waits + 60


def test_no_other_module_waits_for_a_guest_to_shut_down():
    """It would be ended after berth_host_timeout, before the guest is powered off, in every run again."""
    modules = Path(host_limits.__file__).resolve().parents[1] / "modules"
    waiting = {path.stem for path in modules.glob("*.py") if "shutdown_timeout" in path.read_text(encoding="utf-8")}
    assert waiting <= set(host_limits.WORK)


def test_a_volume_that_is_made_from_a_large_image_has_hours_and_its_claim_has_not():
    task_vars = {"hostvars": Known(h1={"berth_host_timeout": 7})}
    seconds = [host_limits.task_seconds(task_vars, "h1", "volume", state) for state in ("claimed", "present", "absent")]
    assert seconds == [7, 7 + 6 * 3600, 7]
