# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host may cost: seconds, and the size and depth of its reply."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.reply import InvalidReply
from ansible_collections.berth.kvm.plugins.plugin_utils import host_reply, limits


def deep(levels):
    value = 1
    for _level in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "reply, much",
    [
        ({"changed": False, "results": [{"a": "b"}] * 1000}, None),
        (deep(limits.DEPTH - 1), None),
        (deep(limits.DEPTH), "more than 32 levels"),
        (deep(100_000), "more than 32 levels"),
        ({"a": "x" * (limits.BYTES + 1)}, "more than 16 MiB of text"),
        ({"x" * (limits.BYTES + 1): 1}, "more than 16 MiB of text"),
        ([["x" * 4096] * 2500] * 2, "more than 16 MiB of text"),
        ([[]] * (limits.PARTS + 1), "more than 1000000 parts"),
    ],
    ids=["usual", "as deep as may be", "too deep", "very deep", "text", "name", "texts", "parts"],
)
def test_a_reply_has_a_limit_of_size_parts_and_depth(reply, much):
    assert limits.excess(reply) == much


def test_each_host_has_its_own_seconds():
    task_vars = {"hostvars": {"h1": {}, "h2": {"berth_host_timeout": "120"}, "h3": {"berth_host_timeout": 1}}}
    assert limits.host_timeouts(task_vars, ["h1", "h2", "h3", "new"]) == {"h1": 60, "h2": 120, "h3": 1, "new": 60}


@pytest.mark.parametrize("value", [0, -1, "soon", 86401, None, 1.5, [], "1e3", True])
def test_seconds_that_are_none_are_refused_by_name(value):
    with pytest.raises(InvalidInput) as caught:
        limits.host_timeouts({"hostvars": {"h1": {"berth_host_timeout": value}}}, ["h1"])
    assert (caught.value.field, caught.value.rule) == ("berth_host_timeout", "whole seconds from 1 to 86400")


@pytest.mark.parametrize(
    "results", [deep(200), deep(100_000), [[]] * (limits.PARTS + 1)], ids=["deep", "abyss", "many"]
)
def test_a_reply_with_too_much_is_refused_before_anything_reads_it(results):
    with pytest.raises(InvalidReply) as caught:
        host_reply._plain_reply("claim", "h1", {"results": results})
    assert "h1: the whole is not valid" in str(caught.value) and caught.value.rule == limits.RULE


def test_what_takes_long_has_hours_beside_the_hosts_seconds():
    task_vars = {"hostvars": {"h1": {"berth_host_timeout": 7}}}
    assert limits.task_seconds(task_vars, "h1", "rescan") == 7
    assert limits.task_seconds(task_vars, "h1", "migration") == 7 + 72 * 3600
