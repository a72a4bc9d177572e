# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One instance asks many hosts at once: each over a connection of its own, and each has an answer of its own (S11)."""

from __future__ import annotations

import json
import re
import time

import pytest
import yaml
from conftest import make_whole

PLAY = [
    {
        "hosts": "asker",
        "gather_facts": False,
        "tasks": [
            {
                "berth.kvm.ask_hosts": {"hosts": "{{ groups.odd + groups.kvm_hosts }}", "module": "host_facts"},
                "delegate_to": "localhost",
                "become": True,
                "register": "asked",
            },
            {
                "ansible.builtin.copy": {
                    "content": "{{ asked.answers | to_json }}",
                    "dest": "{{ playbook_dir }}/answers",
                },
                "delegate_to": "localhost",
            },
        ],
    }
]
# Host -> its variables and how its answer begins. The address of the asker itself is nobody's business.
ODD = {
    "silent": ({"ansible_host": "{{ lab_guest_prefix }}.99"}, "UNREACHABLE: "),
    "stranger": (
        {"ansible_ssh_common_args": "-o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes"},
        "UNREACHABLE: ",
    ),
    "keyless": ({"ansible_ssh_private_key_file": "/dev/null"}, "UNREACHABLE: "),
    # With pipelining it depends on who is quicker: the shell that finds no Python, or what is sent to it.
    "nopython": (
        {"ansible_python_interpreter": "/no/python", "ansible_pipelining": False},
        "PythonUnusable: its Python ran no module: The module interpreter '/no/python'",
    ),
    "nosudo": ({"ansible_become_method": "berth.kvm.none"}, "ModuleFailed: Invalid become method"),
    "undefined": ({"ansible_host": "{{ no_such_variable }}"}, "HostNotAsked: 'no_such_variable' is undefined"),
    "noplugin": ({"ansible_connection": "berth.kvm.none"}, "ModuleFailed: the connection plugin"),
    "here": ({"ansible_connection": "local", "ansible_python_interpreter": "/bin/false"}, "ModuleFailed: "),
}


@pytest.fixture(scope="module")
def answers(prepared_lab, tmp_path_factory):
    """Host -> what it answered, as one line: of the lab's three hosts, and of hosts that are the first one gone wrong."""
    lab, room = prepared_lab, tmp_path_factory.mktemp("asked")
    make_whole(lab)
    hosts = yaml.safe_load(lab.inventory.read_text())["all"]["children"]["kvm_hosts"]
    first = {**hosts["vars"], **hosts["hosts"][lab.host(1)], "ansible_control_path": "none"}
    odd = {name: {**first, **variables} for name, (variables, _answer) in ODD.items()}
    asker = {"asker": {"ansible_host": "{{ no_such_variable }}", "ansible_connection": "local"}}
    tree = {"all": {"hosts": asker, "children": {"odd": {"hosts": odd}}}}
    (room / "odd.yml").write_text(json.dumps(tree))
    (room / "play.yml").write_text(json.dumps(PLAY))
    lab.ansible_playbook(room / "play.yml", "--limit", "asker", inventory=[room / "odd.yml"])
    return {host: line(answer) for host, answer in json.loads((room / "answers").read_text()).items()}


def line(answer):
    if "error" in answer:
        return "%(code)s: %(message)s" % answer["error"]
    return answer.get("reason") or answer["ansible_facts"]["berth_host"]["hypervisor_hostname"]


@pytest.mark.parametrize("host", ODD)
def test_what_is_wrong_with_a_host_is_its_own_answer(host, answers):
    assert answers[host].startswith(ODD[host][1])


def test_each_other_host_answers_for_itself(answers, prepared_lab):
    """None over the asker's connection, which is a local one, nor in another's name."""
    names = [prepared_lab.host(number) for number in (1, 2, 3)]
    assert [answers[name] for name in names] == names


def test_a_host_whose_power_goes_while_a_connection_is_open_costs_the_limit_and_no_more(lab, tmp_path):
    """With Ansible's own options for ssh, which notice nothing: the open connection is waited for many minutes."""
    name = lab.host(3)
    hosts = yaml.safe_load(lab.inventory.read_text())["all"]["children"]["kvm_hosts"]
    given = {**hosts["vars"], **hosts["hosts"][name]}
    powerless = {
        **given,
        "ansible_ssh_common_args": re.sub(r"-o ServerAlive\w+=\d+", "", given["ansible_ssh_common_args"]),
        "ansible_control_path": given["ansible_control_path_dir"] + "/powerless",
        "berth_host_timeout": 12,
    }
    asker = {"asker": {"ansible_connection": "local"}}
    tree = {"all": {"hosts": asker, "children": {"odd": {"hosts": {"powerless": powerless}}}}}
    (tmp_path / "odd.yml").write_text(json.dumps(tree))
    play = json.loads(json.dumps(PLAY).replace("groups.odd + groups.kvm_hosts", "groups.odd"))
    (tmp_path / "play.yml").write_text(json.dumps(play))

    def ask():
        began = time.monotonic()
        lab.ansible_playbook(tmp_path / "play.yml", "--limit", "asker", inventory=[tmp_path / "odd.yml"])
        answer = json.loads((tmp_path / "answers").read_text())["powerless"]
        return answer, time.monotonic() - began

    assert line(ask()[0]) == name
    lab.cut(name)
    try:
        answer, seconds = ask()
    finally:
        lab.heal(name)
    assert answer["reason"] == "UNREACHABLE: no answer within 12 s (berth_host_timeout)"
    assert seconds < 60
