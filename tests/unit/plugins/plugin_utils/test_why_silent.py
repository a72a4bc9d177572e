# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a host does not answer is one short line; what ssh said is shown with -v."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.plugin_utils import host_reply, why_silent

SSH = "Failed to connect to the host via ssh: "
CHANGED = "@@@@@@@@@@@@@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\n%sPermission denied (publickey).\n"
REMOVE = "  remove with:\r\n  ssh-keygen -f '/home/ada/.ssh/known hosts' -R '192.0.2.3'\r\n"
COMPARE = (
    "no login: its host key changed. Compare the new one at the host, remove the old one (%s) and log in once by hand"
)
SAID = {
    SSH + "ssh: connect to host 192.0.2.3 port 22: No route to host": "no route to host",
    SSH + "ssh: connect to host kvm3 port 22: Network is unreachable": "no route to host",
    SSH + "ssh: connect to host kvm3 port 22: Connection timed out": "no answer in time",
    "Timeout (12s) waiting for privilege escalation prompt: ": "no answer in time",
    SSH + "Connection timed out during banner exchange": "no answer in time",
    SSH + "ssh: connect to host kvm3 port 22: Connection refused": "connection refused",
    SSH
    + "root@kvm3: Permission denied (publickey,password).": "no login: authentication failed: correct ansible_user or its key",
    SSH + CHANGED % REMOVE: COMPARE % "ssh-keygen -f '/home/ada/.ssh/known hosts' -R '192.0.2.3'",
    SSH + CHANGED % "": COMPARE % "ssh-keygen -R HOST",
    SSH + "Host key verification failed.": "no login: its host key is not known: log in once by hand",
    SSH + "ssh: Could not resolve hostname kvm3: Name or service not known": "its name is not known: set ansible_host",
    "Missing sudo password": "sudo wants a password: add --ask-become-pass",
    SSH + "Connection closed by 192.0.2.3 port 22": "the connection broke",
    'Data could not be sent to remote host "192.0.2.3". Make sure this host can be reached over ssh: ': "the connection broke",
    "no answer within 12 s (berth_host_timeout)": "no answer within 12 s (berth_host_timeout)",
    "first line\nsomething else": "something else",
}


@pytest.mark.parametrize("said, short", SAID.items(), ids=range(len(SAID)))
def test_a_silent_host_is_told_in_one_short_line_with_the_cause(said, short, monkeypatch):
    monkeypatch.setattr(why_silent, "verbosity", lambda: 0)
    assert host_reply.answer_of({"unreachable": True, "msg": said})["reason"] == "UNREACHABLE: " + short


def test_with_v_the_text_of_ssh_follows(monkeypatch):
    monkeypatch.setattr(why_silent, "verbosity", lambda: 1)
    shown = why_silent.cause(SSH + "ssh: connect to host kvm3 port 22: Connection refused")
    assert shown.startswith("connection refused; ") and "port 22" in shown


def test_what_nobody_knows_is_cut_to_a_line(monkeypatch):
    monkeypatch.setattr(why_silent, "verbosity", lambda: 0)
    assert len(why_silent.cause("x" * 5000)) <= why_silent.LONGEST
