# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One pass of the watch: who is asked about a silent host, what is kept, and what a run ends with."""

from __future__ import annotations

import json
import socket

import pytest
from controller import Controller
from leaving_case import SILENT, up

from ansible_collections.berth.kvm.plugins.action import watch_fleet
from ansible_collections.berth.kvm.plugins.plugin_utils import delegates

NAMES = ["kvm1", "kvm2", "kvm3"]


class Watch:
    def __init__(self, folder, monkeypatch):
        self.folder, self.now, self.asked, self.reaches = folder / "berth" / "watch", 1000.0, [], ()
        self.says = "Timeout when waiting for 192.0.2.3:22"
        self.variables = {"kvm3": {"berth_watch_policy": "evacuate", "ansible_host": "192.0.2.3"}}
        self.answers = {"kvm1": up("kvm1"), "kvm2": up("kvm2"), "kvm3": SILENT}
        monkeypatch.setenv("XDG_STATE_HOME", str(folder))
        self.names = {"kvm3": "192.0.2.3", "192.0.2.3": "192.0.2.3"}
        monkeypatch.setattr(watch_fleet.socket, "getaddrinfo", self.resolve)
        monkeypatch.setattr(delegates, "run_on", self.run_on)
        monkeypatch.setattr(watch_fleet.time, "time", lambda: self.now)

    def resolve(self, name, _port):
        if name not in self.names:
            raise socket.gaierror(-2, "Name or service not known")
        return [(0, 0, 0, "", (self.names[name], 0))]

    def run_on(self, hosts, module, arguments, *_more):
        self.asked += [(host, arguments[host]["module"], arguments[host]["arguments"]) for host in hosts]
        return {
            host: {"changed": False} if host in self.reaches else {"failed": True, "msg": self.says} for host in hosts
        }

    def look(self, check_mode=False, **args):
        it = Controller({"kvm_hosts": NAMES}, self.variables)
        it.register("localhost", __berth_facts={"answers": self.answers})
        return it.run("watch_fleet", args, check_mode=check_mode)

    def after(self, seconds, **args):
        self.now += seconds
        return self.look(**args)

    def kept(self):
        (path,) = self.folder.iterdir()
        return json.loads(path.read_text())


@pytest.fixture
def watch(tmp_path, monkeypatch):
    return Watch(tmp_path, monkeypatch)


def test_a_host_that_neither_the_controller_nor_another_host_reaches_is_evacuated_after_the_set_time(watch, capsys):
    assert watch.look()["evacuate"] == [] and watch.after(200)["evacuate"] == []
    assert "kvm3 is down for 200 of 300 s; its policy: evacuate" in capsys.readouterr().out
    done = watch.after(100)
    assert done["evacuate"] == ["kvm3"] and done["down"] == ["kvm3"]
    assert [(host, module, given["host"], given["port"]) for host, module, given in watch.asked[:2]] == [
        ("kvm1", "wait_for", "192.0.2.3", 22),
        ("kvm2", "wait_for", "192.0.2.3", 22),
    ]


def test_a_host_that_another_host_reaches_is_not_down(watch, capsys):
    watch.look()
    watch.reaches = ("kvm2",)
    assert watch.after(200)["down"] == [] and watch.kept()["down"] == {}
    assert "kvm3 does not answer, but is not taken for down: kvm2 reaches it" in capsys.readouterr().out
    watch.reaches = ()
    assert watch.after(200)["evacuate"] == []


def test_a_host_that_nobody_could_look_at_is_not_down(watch):
    watch.says = "No python interpreters found"
    assert watch.look().get("down") == []


def test_witnesses_are_given_an_address_and_a_name_without_one_is_not_down(watch):
    watch.variables["kvm3"]["ansible_host"] = "kvm3"
    assert watch.look()["down"] == ["kvm3"] and watch.asked[0][2]["host"] == "192.0.2.3"
    watch.variables["kvm3"]["ansible_host"] = "alias-of-ssh"
    assert watch.look()["down"] == []


def test_a_host_whose_kernel_refuses_connections_is_not_down(watch):
    watch.answers["kvm3"] = {"reason": "UNREACHABLE: connection refused"}
    assert watch.look().get("down") == [] and not watch.asked


def test_a_host_that_was_closed_or_that_answers_without_facts_is_not_down(watch):
    watch.answers["kvm3"] = {"reason": "LibvirtTimeout: hangs"}
    assert watch.look().get("down") == []
    watch.answers["kvm3"] = SILENT
    watch.variables["kvm3"]["berth_host_disabled"] = True
    assert watch.look().get("down") == []


def test_by_default_a_person_is_told_and_the_run_fails(watch):
    watch.variables = {}
    watch.look()
    watch.after(200)
    refused = watch.after(200)
    assert refused["error_code"] == "HostsDown" and "kvm3: its policy is to tell a person" in refused["msg"]


def test_when_too_many_are_silent_the_run_says_that_the_controller_is_cut_off(watch):
    watch.answers["kvm2"] = SILENT
    watch.look()
    watch.after(200)
    assert watch.after(200)["error_code"] == "ControllerCutOff"


def test_check_mode_keeps_nothing(watch):
    watch.look(check_mode=True)
    assert not watch.folder.exists()


def test_once_its_evacuation_is_over_the_next_passes_leave_a_host_alone(watch, capsys):
    watch.look()
    watch.after(200)
    assert watch.after(200)["evacuate"] == ["kvm3"]
    assert watch.look(evacuated=["kvm3"])["evacuate"] == ["kvm3"] and watch.kept()["evacuated"] == ["kvm3"]
    again = watch.after(200)
    assert again["evacuate"] == [] and again["down"] == ["kvm3"] and not again.get("failed")
    assert "kvm3 is down, and was evacuated" in capsys.readouterr().out


def test_an_evacuation_that_was_killed_is_begun_again(watch):
    watch.look()
    watch.after(200)
    assert watch.after(200)["evacuate"] == ["kvm3"] and watch.after(60)["evacuate"] == ["kvm3"]


def test_check_mode_keeps_no_evacuation_either(watch):
    watch.look()
    watch.look(check_mode=True, evacuated=["kvm3"])
    assert watch.kept()["evacuated"] == []


def test_what_an_earlier_version_has_kept_is_read(watch):
    watch.look()
    (path,) = watch.folder.iterdir()
    path.write_text('{"at": 1000, "down": {"kvm3": 700}}')
    assert watch.look()["evacuate"] == ["kvm3"]


@pytest.mark.parametrize("text", ["", "[]", '{"at": "x", "down": {}}', '{"at": 1000, "down": []}'])
def test_a_file_that_cannot_be_read_begins_anew(watch, text):
    watch.look()
    (path,) = watch.folder.iterdir()
    path.write_text(text)
    assert watch.after(299)["evacuate"] == [] and watch.kept()["down"] == {"kvm3": 1299.0}


@pytest.mark.parametrize(
    "args, field",
    [
        ({"seconds": 0}, "berth_watch_seconds"),
        ({"most": "x"}, "berth_watch_most"),
        ({"share": 101}, "berth_watch_share"),
    ],
)
def test_limits_have_to_make_sense(watch, args, field):
    assert watch.look(**args)["error"]["field"] == field
    watch.variables["kvm3"]["berth_watch_policy"] = "always"
    assert watch.look()["error"]["field"] == "berth_watch_policy of kvm3"
