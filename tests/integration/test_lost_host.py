# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A resize one of whose hosts is lost for good, and what that host may do when it is back after all (I1, I3, I5)."""

from __future__ import annotations

import pytest
from conftest import make_whole
from test_resize import BIG, cases, facts

from playbooks import homes, records

RESIZE = {**BIG, "berth_shutdown_timeout": 1}


@pytest.fixture(scope="module")
def case(prepared_lab, image, tmp_path_factory):
    """One instance for all tests of this file: each leaves it at rest somewhere."""
    make_whole(prepared_lab)
    case = cases.Case(prepared_lab, image, tmp_path_factory.mktemp("lost"))
    case.play("create")
    yield case
    make_whole(prepared_lab)


def test_a_lost_destination_gives_the_guest_back_and_starts_nothing_when_it_returns(case):
    source = case.owner()
    nonce = facts(case, source, lambda said: said["ack"] > 0)["nonce"]
    case.play("resize", RESIZE)
    destination = homes(case.lab)[cases.NAME]
    case.lab.sh(destination, "virsh -q autostart $(virsh -q list --uuid)")
    case.lab.crash(destination)
    before = case.look(source)
    refused = case.play("revert_resize", check=False)
    assert refused.rc and "HostUnknown" in refused.output, refused.output
    assert "-e berth_lost_hosts=%s" % destination in refused.output
    assert case.look(source) == before

    lost = {"berth_lost_hosts": destination}
    done = case.play("revert_resize", lost)
    assert "what the guest wrote there" in done.output
    assert (records(case.lab), len(case.look(source)["running"])) == ([(source, cases.NAME, "OWN")], 1)
    assert facts(case, source, lambda said: said["verify"]["result"] == "ok")["nonce"] == nonce

    case.lab.start(destination)
    by_hand = case.lab.sh(destination, "virsh start $(virsh -q list --all --uuid)", check=False)
    assert "no permit" in by_hand.output and case.look(destination)["active"] == []
    told = case.play("revert_resize", check=False)
    assert told.rc and "InstanceSuperseded" in told.output, told.output
    refused = case.play("start", check=False)
    assert refused.rc and "%s still holds a part" % destination in refused.output, refused.output
    assert case.look(destination)["active"] == []
    case.play("revert_resize", lost)
    assert records(case.lab) == [(source, cases.NAME, "OWN")] and case.look(destination)["files"] == []
    assert len(case.look(source)["running"]) == 1


@pytest.mark.slow
def test_a_lost_source_is_confirmed_without_and_swept_when_it_returns(case):
    source = case.owner()
    case.play("resize", RESIZE)
    destination = homes(case.lab)[cases.NAME]
    case.lab.crash(source)
    case.play("confirm_resize", {**BIG, "berth_lost_hosts": source})
    assert records(case.lab) == [(destination, cases.NAME, "OWN")] and len(case.look(destination)["running"]) == 1
    case.lab.start(source)
    assert case.look(source)["active"] == [] and case.look(source)["files"]
    case.play("confirm_resize", BIG)
    assert records(case.lab) == [(destination, cases.NAME, "OWN")] and case.look(source)["files"] == []
    assert case.play("confirm_resize", BIG).changed[cases.NAME] == 0
