# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An end at every step of create and delete: one more run converges, the next changes nothing (I1, I4, I5)."""

from __future__ import annotations

import pytest
from build_steps import BUILD_STEPS
from host_side import request

DELETE_STEPS = ["delete begin", "delete permit", "delete domain", "delete disks", "delete volumes", "delete record"]
STOP_STEPS = ["stop", "stopped"]


@pytest.fixture
def side(lab, code_on_host):
    yield code_on_host
    lab.sh(lab.host(2), "pkill -f /opt/berth-test/[d]river.py", check=False)


@pytest.fixture
def web(image):
    spec, seed = request("web-1", image)
    return {"uuid": spec["uuid"], "spec": spec, "seed": seed, "token": "t1"}


def claim(side, web):
    answer = side.call("claim", claims=[{"spec": web["spec"], "token": web["token"]}])
    assert answer["result"][0]["claimed"], answer
    return answer


def expected_traces(uuid):
    return sorted(
        [
            "/run/berth/permits/" + uuid,
            "/var/lib/berth/instances/" + uuid,
            "/var/lib/berth/instances/%s/lock" % uuid,
            "/var/lib/berth/instances/%s/record.json" % uuid,
            "/var/lib/libvirt/berth/instances/" + uuid,
            "/var/lib/libvirt/berth/instances/%s/attached.json" % uuid,
            "/var/lib/libvirt/berth/instances/%s/owner" % uuid,
            "/var/lib/libvirt/berth/instances/%s/root.qcow2" % uuid,
            "/var/lib/libvirt/berth/instances/%s/seed.iso" % uuid,
            "/var/log/libvirt/qemu/%s-console.log" % uuid,
            "guest " + uuid,
            uuid,
        ]
    )


def assert_converges(side, web):
    """One run makes it whole and the next finds nothing to do."""
    answer = side.call("started", **web)
    assert answer.get("result") is True, answer
    assert side.call("started", **web)["result"] is False
    record = side.record(web["uuid"])
    assert (record["role"], record["phase"], record["vm_state"], record["task_state"]) == (
        "OWN",
        "active",
        "active",
        None,
    )
    assert side.traces() == expected_traces(web["uuid"])


def assert_gone(side, web):
    side.call("absent", uuid=web["uuid"])
    assert side.call("absent", uuid=web["uuid"])["result"] is False
    assert side.traces() == []


def test_the_steps_that_the_sweep_knows_are_all_there_are(side, web):
    claim(side, web)
    assert side.call("started", **web)["steps"] == BUILD_STEPS
    assert side.call("stopped", uuid=web["uuid"], grace=0)["steps"] == STOP_STEPS
    assert side.call("absent", uuid=web["uuid"])["steps"] == DELETE_STEPS


@pytest.mark.parametrize("at", range(len(BUILD_STEPS)), ids=BUILD_STEPS)
def test_a_build_killed_at_a_step_is_finished_by_the_next_run(side, web, at):
    claim(side, web)
    assert side.call("started", at=at, **web) is None
    phase, inode = side.record(web["uuid"])["phase"], side.root_inode(web["uuid"])
    assert_converges(side, web)
    if phase == "active":
        assert side.root_inode(web["uuid"]) == inode, "a disk that may hold data was made again"
    assert_gone(side, web)


@pytest.mark.slow
@pytest.mark.parametrize("at", range(len(BUILD_STEPS)), ids=BUILD_STEPS)
def test_a_build_killed_at_a_step_can_be_deleted(side, web, at):
    claim(side, web)
    assert side.call("started", at=at, **web) is None
    assert_gone(side, web)


@pytest.mark.parametrize("at", range(len(DELETE_STEPS)), ids=DELETE_STEPS)
def test_a_delete_killed_at_a_step_is_finished_by_the_next_run(side, web, at):
    claim(side, web)
    side.call("started", **web)
    assert side.call("absent", uuid=web["uuid"], at=at) is None
    assert_gone(side, web)


@pytest.mark.parametrize("at", range(1, len(DELETE_STEPS)), ids=DELETE_STEPS[1:])
def test_a_create_after_a_killed_delete_finishes_the_delete_first(side, web, at):
    claim(side, web)
    side.call("started", **web)
    assert side.call("absent", uuid=web["uuid"], at=at) is None
    error = side.call("started", **web)["error"]
    assert (error["code"], error["retryable"]) == ("DeletionFinished", True)
    assert side.traces() == []


@pytest.mark.slow
@pytest.mark.parametrize("at", range(len(DELETE_STEPS)), ids=DELETE_STEPS)
def test_a_clean_up_killed_at_a_step_is_finished_by_the_next_run(side, web, at):
    claim(side, web)
    assert side.call("started", at=at, fail_step="build active", **web) is None
    side.call("started", **web)
    assert_gone(side, web)


@pytest.mark.parametrize("step", BUILD_STEPS[1:7])
def test_a_build_that_fails_at_a_step_leaves_nothing_and_may_go_elsewhere(side, web, step):
    claim(side, web)
    error = side.call("started", fail_step=step, **web)["error"]
    assert (error["code"], error["retryable"]) == ("BuildFailed", True)
    assert side.traces() == []


@pytest.mark.parametrize("at", range(len(STOP_STEPS)), ids=STOP_STEPS)
def test_a_stop_killed_at_a_step_is_finished_by_the_next_run(side, web, at):
    claim(side, web)
    side.call("started", **web)
    assert side.call("stopped", uuid=web["uuid"], grace=0, at=at) is None
    assert side.call("stopped", uuid=web["uuid"], grace=0)["result"] is True
    assert side.call("stopped", uuid=web["uuid"], grace=0)["result"] is False
    assert side.record(web["uuid"])["vm_state"] == "stopped"


@pytest.mark.parametrize("step", ["build seed", "build active", "start guest", "start done"])
def test_a_power_cut_at_a_step_is_survived(lab, side, web, step):
    claim(side, web)
    side.begin("started", at=BUILD_STEPS.index(step), how="wait", **web)
    assert side.wait_for_step() == step
    lab.crash(side.host)
    lab.start(side.host)
    assert_converges(side, web)
    assert_gone(side, web)


@pytest.mark.parametrize("step", ["build disks", "build define", "start guest"])
def test_libvirtd_killed_at_a_step_is_survived(lab, side, web, step):
    claim(side, web)
    side.begin("started", at=BUILD_STEPS.index(step), how="wait", **web)
    assert side.wait_for_step() == step
    lab.kill_libvirtd(side.host)
    lab.sh(side.host, "pkill -f /opt/berth-test/[d]river.py")
    lab.restart_libvirtd(side.host)
    assert_converges(side, web)
    assert_gone(side, web)


def test_a_second_run_waits_for_the_first_and_then_says_who_it_is(side, web):
    """A killed controller leaves the module running on the host."""
    claim(side, web)
    side.begin("started", at=1, how="wait", **web)
    side.wait_for_step()
    error = side.call("started", timeout=1, **web)["error"]
    assert error["code"] == "InstanceBusy"
    assert "locked by test, process" in error["message"]


def test_an_adopted_claim_fences_the_run_that_made_it(side, web):
    claim(side, web)
    claim(side, dict(web, token="t2"))
    assert side.call("started", **web)["error"]["code"] == "ClaimRevoked"
    assert_converges(side, dict(web, token="t2"))


def test_a_withdrawn_claim_cannot_come_back(side, web):
    claim(side, web)
    withdrawn = side.call("withdraw", claims=[{"uuid": web["uuid"], "token": "t1"}])
    assert withdrawn["result"] == [{"uuid": web["uuid"], "withdrawn": True}]
    late = side.call("claim", claims=[{"spec": web["spec"], "token": "t1"}])
    assert late["result"][0]["error"]["code"] == "ClaimRevoked"
    assert side.traces() == []
