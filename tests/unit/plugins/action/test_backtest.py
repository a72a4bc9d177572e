# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded decisions are decided again under another policy."""

from __future__ import annotations

import gzip

import pytest
from placement_case import VM, facts
from receipt_case import create, files, run

FAILED = {"h1": facts("h1", failed_builds=3)}
PACK = {"berth_placement": {"build_failure_weight_multiplier": 0.0}}


def backtest(variables=None, **args):
    return run("backtest", {"hosts": ["h1", "h2"], **args}, variables)


def test_the_same_policy_decides_the_same(own_state, capsys):
    create({"web1": VM, "huge": {**VM, "berth_flavor": "huge"}}, more_facts=FAILED)
    done = backtest()
    assert (done["decisions"], done["instances"], done["differ"]) == (1, 2, [])
    assert "1 decisions on 2 requests, as placement is set now: no other host" in capsys.readouterr().out


def test_another_policy_says_which_instances_would_be_on_other_hosts(own_state, capsys):
    create(more_facts=FAILED)
    (each,) = backtest(PACK)["differ"]
    assert (each["instance"], each["then"], each["now"]) == ("web1", ["h2"], ["h1"])
    assert "1 get other hosts" in capsys.readouterr().out


def test_a_receipt_that_cannot_be_decided_again_is_left_out_and_told(own_state, capsys):
    create(more_facts=FAILED)
    (path,) = files(own_state)
    head, *rest = gzip.decompress(path.read_bytes()).split(b"\n")
    path.write_bytes(gzip.compress(b"\n".join([head, *rest[:1]])))
    done = backtest(PACK)
    assert (done["decisions"], done["differ"]) == (0, []) and "%s is left out: " % path in capsys.readouterr().out


def test_a_policy_that_cannot_be_meant_is_refused_once(own_state):
    create(more_facts=FAILED)
    assert backtest({"berth_placement": {"nope": 1}})["error_code"] == "UnknownOption"


@pytest.mark.parametrize("decisions", [0, "many"])
def test_how_many_decisions_has_to_make_sense(own_state, decisions):
    assert backtest(decisions=decisions)["error"]["field"] == "berth_decisions"
