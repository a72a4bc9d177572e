# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told of a guest's console: its last words without a terminal's commands, and where to find it."""

from __future__ import annotations

import pytest
from instance_case import Case

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import agent, console
from ansible_collections.berth.kvm.plugins.module_utils.model import reply_shapes


@pytest.mark.parametrize(
    "text, shown",
    [
        ("a\nb\nc\n", ["b", "c"]),
        ("\x1b[2J\x1b[1;31mred\x1b[0m\n", ["red"]),
        ("\x1b]0;title\x07prompt\x1b(B\x1b[?2004h\x1b=\n", ["prompt"]),
        ("\x1b]0;title\x1b\\prompt\n", ["prompt"]),
        ("10%\r50%\r100%\r\n", ["100%"]),
        ("a\tb\n\n\n", ["a b"]),
        ("bell\x07 bidi\u202e \x9b31m\n", ["bell? bidi? ?31m"]),
        ("{{ lookup('pipe', 'id') }}\n", ["?{ lookup('pipe', 'id') }}"]),
        ("x" * 1000 + "\n", ["x" * 255]),
        ("", []),
        ("\x1b[" * 50000, None),
    ],
)
def test_the_last_lines_are_shown_without_what_a_terminal_obeys(text, shown):
    found = console.last_lines(text, 2)
    assert found == shown if shown is not None else len(found) <= 2
    assert "\x1b" not in "".join(found)


def test_no_more_lines_than_asked_for_and_than_the_limit():
    text = "".join("%d\n" % number for number in range(1000))
    assert console.last_lines(text, 0) == []
    assert len(console.last_lines(text, 10**9)) == console.MOST_LINES


RUNNING = """<domain><devices>
<serial type="pty"><source path="/dev/pts/7"/><target port="0"/></serial>
<graphics type="vnc" port="%s" autoport="yes" listen="127.0.0.1"/></devices></domain>"""


@pytest.fixture
def case(prepared, wanted, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "CONSOLE_DIRECTORY", str(tmp_path))
    case = Case(prepared, wanted())
    case.make()
    (tmp_path / (case.uuid + "-console.log")).write_text("boot\nlogin:\n")
    case.domain.interfaceAddresses = lambda source, _flags: CARDS[source]
    for name, number in (("LEASE", 0), ("AGENT", 1)):
        name = "VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_" + name
        monkeypatch.setattr(console.require_libvirt(), name, number, raising=False)
    return case


CARDS = {
    0: {"vnet0": {"hwaddr": "02:00:00:00:00:01", "addrs": [{"addr": "192.0.2.9", "prefix": 24, "type": 0}]}},
    1: {"eth0": {"hwaddr": "02:00:00:00:00:01", "addrs": None}, "lo": {"addrs": [{"addr": "::1", "prefix": 128}]}},
}


@pytest.mark.parametrize("port, vnc", [("5901", "127.0.0.1:5901"), ("-1", None), ("x", None)])
def test_a_running_guest_tells_where_it_is(case, port, vnc, monkeypatch):
    monkeypatch.setattr(agent, "answers", lambda _found: True)
    case.domain.xml = RUNNING % port
    said = console.look(case.host.connection, case.uuid, 5)
    assert said == {
        "lines": ["boot", "login:"],
        "attach": "virsh console " + case.uuid,
        "serial": "/dev/pts/7",
        "vnc": vnc,
        "addresses": [
            {"mac": "None", "address": "::1/128", "source": "agent"},
            {"mac": "02:00:00:00:00:01", "address": "192.0.2.9/24", "source": "lease"},
        ],
    }
    reply_shapes._CONSOLE(said)


def test_a_guest_that_is_off_has_a_log_and_no_address(case):
    case.instance().stopped(0)
    said = console.look(case.host.connection, case.uuid, 5)
    assert (said["lines"], said["serial"], said["vnc"], said["addresses"]) == (["boot", "login:"], None, None, [])


def test_an_agent_that_does_not_answer_is_not_asked_for_addresses(case, monkeypatch):
    monkeypatch.setattr(agent, "answers", lambda _found: False)
    assert [found["source"] for found in console.addresses(case.domain)] == ["lease"]
