# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reply whose every part is well formed, and which is about something else than was asked: nothing of it counts."""

from __future__ import annotations

import copy

import good
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model import reply
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils import host_reply

OTHER = instance_uuid("default", "another")


def checked(module, asked_and_said, change=lambda asked, said: None):
    """The reply as it passes the door, after the test has changed what was asked or said."""
    asked, said = (copy.deepcopy(part) for part in asked_and_said)
    change(asked, said)
    return reply.check(module, said, "h1", asked)


def refused(module, asked_and_said, change, field):
    checked(module, asked_and_said)
    with pytest.raises(reply.InvalidReply) as error:
        checked(module, asked_and_said, change)
    assert (error.value.details["host"], error.value.field) == ("h1", field)


def test_a_reply_about_another_instance_is_none():
    refused("instance", good.instance("h1"), lambda _asked, said: said["instance"].update(uuid=OTHER), "instance.uuid")
    refused("migration", good.migration_of("h1"), lambda _asked, said: said["move"].update(uuid=OTHER), "move.uuid")


def test_a_build_that_nobody_asked_for_is_none_and_nor_are_the_others_of_that_reply():
    said_of = good.build_instances("h1")
    refused("build_instances", said_of, lambda _asked, said: said["builds"][1].update(uuid=OTHER), "builds[1].uuid")


@pytest.mark.parametrize(
    "field, change",
    [
        ("instance.uuid", lambda said: said["instance"].update(uuid=OTHER)),
        ("instance", lambda said: said.pop("instance")),
        ("changed", lambda said: said.update(changed="yes")),
        ("error", lambda said: said.update(failed=True, error=[1])),
    ],
)
def test_what_does_not_fit_in_the_reply_of_one_build_leaves_the_others(field, change):
    found = checked(
        "build_instances", good.build_instances("h1"), lambda _asked, said: change(said["builds"][0]["reply"])
    )["builds"]
    first, second = (host_reply.answer_of(build["reply"]) for build in found)
    assert set(first) == {"changed", "reason"}  # what became of it is not known, as of one on a host that is silent
    assert "h1: builds[0].reply.%s is not valid" % field in first["reason"]
    assert second["error"]["code"] == good.failure("h1")[1]["error"]["code"]


def test_a_look_that_shows_another_instance_or_none_is_none():
    looks, field = good.looks("h1"), "looks[0].instance"
    refused("host_facts", looks, lambda _asked, said: said["looks"][0].update(instance=None), field)
    refused("host_facts", looks, lambda _asked, said: said["looks"][0]["instance"].update(uuid=OTHER), field + ".uuid")


def test_a_reply_about_another_operation_is_none():
    """What a run that ended had asked must not end the move of this one."""
    refused("migration", good.migration_of("h1"), lambda _asked, said: said["token"].update(op="e" * 32), "token.op")
    refused("migration", good.migration_of("h1"), lambda asked, _said: asked["token"].update(op=None), "token.op")


@pytest.mark.parametrize(
    "module, part",
    [
        ("build_instances", "builds"),
        ("rescan", "instances"),
        ("claim", "results"),
        ("host_facts", "moves"),
        ("host_facts", "looks"),
    ],
)
def test_no_instance_is_told_twice(module, part):
    good_one = getattr(good, "looks" if part == "looks" else module)("h1")
    refused(module, good_one, lambda _asked, said: said[part].append(copy.deepcopy(said[part][0])), part)


def test_a_claim_for_an_instance_that_nobody_asked_for_is_none():
    refused("claim", good.claim("h1"), lambda _asked, said: said["results"][0].update(uuid=OTHER), "results[0].uuid")


def test_a_claim_with_a_token_that_nobody_gave_is_none():
    """It is the claim of another run."""
    refused(
        "claim", good.claim("h1"), lambda _asked, said: said["results"][0].update(token="9" * 32), "results[0].token"
    )


def test_a_claim_without_a_token_of_the_asker_has_the_hosts():
    def without(asked, _said):
        asked["claims"][0].pop("token")

    assert checked("claim", good.claim("h1"), without)["results"][0]["token"] == good.TOKENS["new-1"]


def test_what_a_host_remembers_is_heard_only_of_whom_it_was_asked():
    refused("rescan", good.rescan("h1"), lambda asked, _said: asked.update(about=[OTHER]), "notes")
