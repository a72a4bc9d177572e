# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""-e berth_report=FILE of the playbooks in which each host ends for itself: whatever comes of a host, the file has it."""

from __future__ import annotations

import json

import pytest
from fake_fleet import play


@pytest.fixture
def told(tmp_path):
    """told(command) -> the file after the run; before it there is one that says finished. The hosts' ssh is never there."""
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nexit 255\n")
    ssh.chmod(0o755)

    def run(*command, **of_hosts):
        def change(tree):
            for host, values in of_hosts.items():
                tree["all"]["children"]["kvm_hosts"]["hosts"][host].update(values)

        file = tmp_path / "out.json"
        file.write_text('{"finished": true}')
        environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
        play(tmp_path, [*command, "-e", "berth_report=%s" % file], change=change, more_environment=environment)
        return json.loads(file.read_text())

    run.silent = {"ansible_connection": "ssh", "ansible_ssh_executable": str(ssh)}
    return run


def state(entry):
    return entry.get("state"), entry["changed"], entry.get("error", {}).get("code")


def test_prepare_hosts_tells_what_came_of_each_host(told):
    found = told("prepare_hosts", h1=told.silent, h2={"berth_host_certificate_names": {"a": 1}})
    assert (found["schema"], found["finished"], found["check"], set(found["hosts"])) == (
        1,
        True,
        False,
        {"h1", "h2", "h3"},
    )
    assert state(found["hosts"]["h1"]) == ("unreachable", False, None)
    assert state(found["hosts"]["h2"]) == ("failed", False, None)
    assert state(found["hosts"]["h3"]) == ("ok", True, None)


def test_what_an_earlier_run_left_in_the_file_is_not_taken_for_this_one(tmp_path):
    """The hosts know the file, and localhost, which begins it anew, does not."""
    file = tmp_path / "out.json"
    earlier = {"changed": False, "state": "ok"}
    file.write_text(json.dumps({"schema": 1, "finished": True, "hosts": dict.fromkeys(("h1", "h2", "h3"), earlier)}))

    def change(tree):
        hosts = tree["all"]["children"]["kvm_hosts"]
        hosts["vars"]["berth_report"] = str(file)
        hosts["hosts"]["h2"]["berth_host_certificate_names"] = {"a": 1}

    play(tmp_path, ["prepare_hosts"], change=change, more_environment={"XDG_STATE_HOME": str(tmp_path / "state")})
    found = json.loads(file.read_text())
    assert {host: entry["state"] for host, entry in found["hosts"].items()} == {"h1": "ok", "h2": "failed", "h3": "ok"}
    assert found["finished"]


def test_a_run_all_of_whose_hosts_are_silent_has_finished(told):
    found = told("prepare_hosts", "--limit", "h1", "--check", h1=told.silent)
    assert (found["finished"], found["check"], list(found["hosts"])) == (True, True, ["h1"])
    assert found["hosts"]["h1"]["state"] == "unreachable" and found["hosts"]["h1"]["error"]["message"]


def test_a_host_at_which_a_task_of_ansibles_own_failed_has_failed(told):
    found = told("prepare_hosts", "--limit", "h1", h1={"berth_host_certificate_names": {"a": 1}})
    assert found["finished"] and state(found["hosts"]["h1"]) == ("failed", False, None)


def test_a_rotation_that_cannot_go_on_tells_the_error_and_what_it_changed(told):
    found = told("rotate_authority", h1=told.silent)
    assert (found["finished"], found["error"]["code"]) == (True, "AuthorityStillNeeded")
    assert state(found["hosts"]["h1"]) == ("unreachable", False, None)
    assert state(found["hosts"]["h2"]) == (None, True, None)  # not at its end


def test_variables_that_are_refused_are_the_error_of_the_run(told):
    found = told("prepare_hosts", "-e", "berth_reprot=x")
    assert (found["finished"], found["error"]["code"], "hosts" in found) == (True, "UnknownVariable", False)


def test_why_tells_each_instance_of_which_nothing_is_known(told):
    found = told("why", "--limit", "new-1,at-rest-h1")
    assert found["finished"] and set(found["decisions"]) == {"new-1", "at-rest-h1"}
    assert {state(entry) for entry in found["decisions"].values()} == {("failed", False, "ReceiptNotFound")}


def test_a_replay_that_fails_tells_why(told):
    found = told("replay", "-e", "berth_receipt=/nowhere")
    assert (found["finished"], found["error"]["code"]) == (True, "ReceiptInvalid")
