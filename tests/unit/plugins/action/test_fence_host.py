# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A silent host is switched off by its fence agent, and counts as off only if the agent says so."""

from __future__ import annotations

import pytest
from controller import Controller
from leaving_case import SILENT, up

from ansible_collections.berth.kvm.plugins.plugin_utils import fencing

# Keeps what it was told; its power is a file, its exit codes are those of fence-agents.
AGENT = """#!/bin/sh
cd %s; cat > told; echo "$*" > words
action=$(sed -n s/^action=//p told)
echo "$action" >> done
case $action in
off) test -f broken && { echo "Login of ann with s3cret failed" >&2; exit 1; }; test -f stuck || rm -f on; exit 0;;
status) test -f dumb && exit 1; test -f on && exit 0; exit 2;;
esac
"""


@pytest.fixture
def agent(tmp_path, monkeypatch):
    path = tmp_path / "fence_test"
    path.write_text(AGENT % tmp_path)
    path.chmod(0o700)
    (tmp_path / "on").touch()
    monkeypatch.setattr(fencing, "PLACES", str(tmp_path))
    monkeypatch.setattr(fencing, "PAUSE", 0)
    monkeypatch.setattr(fencing, "SECONDS", 5)
    return tmp_path


FENCE = {"agent": "fence_test", "ip": "192.0.2.9", "username": "ann", "password": "s3cret"}


def fence(answer=None, given=..., check_mode=False, lost=None, name="kvm3", others=None):
    given = FENCE if given is ... else given
    variables = {"kvm3": {"berth_fence": given}} if given is not None else {}
    variables.update({"kvm1": {"berth_fence": others}} if others else {})
    it = Controller({"kvm_hosts": ["kvm1", "kvm3"]}, variables)
    it.register("localhost", __berth_facts={"answers": {"kvm1": up("kvm1"), "kvm3": answer or SILENT}})
    values = {**it.task_vars(), **({"berth_lost_hosts": lost} if lost else {})}
    return it.run("fence_host", {"names": name}, values, check_mode=check_mode)


def test_a_silent_host_is_switched_off_and_the_agent_is_asked_whether_it_is(agent):
    done = fence()
    assert done["changed"] and done["hosts"] == ["kvm3"] and done["evidence"] == "fence_test says that kvm3 is off"
    assert (agent / "done").read_text().split() == ["status", "off", "status"]


def test_secrets_reach_the_agent_on_its_standard_input_alone(agent):
    done = fence()
    assert "password=s3cret\n" in (agent / "told").read_text() and (agent / "words").read_text() == "\n"
    assert "s3cret" not in str(done)


def test_a_host_that_is_off_is_not_switched_off_again(agent):
    (agent / "on").unlink()
    done = fence()
    assert not done["changed"] and done["evidence"] and (agent / "done").read_text().split() == ["status"]


@pytest.mark.parametrize("fault", ["broken", "dumb", "stuck"])
def test_without_the_word_of_the_agent_no_host_counts_as_off(agent, monkeypatch, fault, capsys):
    monkeypatch.setattr(fencing, "SECONDS", 1)
    (agent / fault).touch()
    refused = fence()
    assert refused.get("error_code") == "FenceFailed" and "hosts" not in refused
    assert "s3cret" not in str(refused) + capsys.readouterr().out


def test_an_agent_that_cannot_be_started_says_nothing_of_the_host(agent):
    (agent / "fence_test").write_text("#!/no/such/interpreter\n")
    refused = fence()
    assert refused.get("error_code") == "FenceFailed" and "No such file" in refused["msg"] and (agent / "on").exists()


def test_an_agent_that_does_not_answer_is_ended(agent, monkeypatch):
    monkeypatch.setattr(fencing, "SECONDS", 1)
    (agent / "fence_test").write_text("#!/bin/sh\nsleep 60\n")
    assert "no answer in 1 s" in fence()["msg"]


def test_check_mode_asks_the_agent_and_switches_nothing_off(agent):
    done = fence(check_mode=True)
    assert done["hosts"] == ["kvm3"] and (agent / "done").read_text().split() == ["status"] and (agent / "on").exists()


@pytest.mark.parametrize("answer", [up("kvm3"), {"reason": "LibvirtTimeout: hangs"}], ids=["well", "hung"])
def test_a_host_that_answers_is_never_switched_off(agent, answer):
    assert fence(answer).get("error_code") == "HostNotLost" and not (agent / "done").exists()


@pytest.mark.parametrize(
    "given",
    [
        None,
        "fence_test",
        {"ip": "192.0.2.9"},
        {**FENCE, "agent": "../sh"},
        {**FENCE, "agent": "fence_missing"},
        {**FENCE, "action": "on"},
        {**FENCE, "password": "s3cret\naction=on"},
        {**FENCE, "password": ["s3cret"]},
        {**FENCE, "a=b": "c"},
    ],
)
def test_what_the_inventory_says_of_the_agent_has_to_make_sense(agent, given, capsys):
    refused = fence(given=given)
    assert refused.get("error_code") == "InvalidInput" and not (agent / "done").exists()
    assert refused["error"]["field"].startswith("berth_fence of kvm3")
    assert "s3cret" not in str(refused) + capsys.readouterr().out


def test_two_hosts_with_the_same_options_of_an_agent_are_not_fenced(agent):
    refused = fence(others=dict(reversed(FENCE.items())))
    assert refused.get("error_code") == "InvalidInput" and "kvm1" in refused["msg"] and (agent / "on").exists()
    assert "s3cret" not in str(refused) and not (agent / "done").exists()


def test_a_person_s_word_and_an_agent_are_not_mixed(agent):
    assert (
        fence(lost="kvm1")["error"]["field"] == "berth_kvm_host"
        and fence(name="kvm9")["error_code"] == "KvmHostNotFound"
    )
