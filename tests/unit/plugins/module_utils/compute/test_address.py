# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""By which address others reach a host."""

from __future__ import annotations

import socket

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.host import address

NAMES = {"kvm1-storage": "198.51.100.7", "kvm1": "203.0.113.1"}


@pytest.fixture(autouse=True)
def resolver(monkeypatch):
    def look_up(name):
        if name not in NAMES:
            raise socket.gaierror("Name or service not known")
        return NAMES[name]

    monkeypatch.setattr(socket, "gethostbyname", look_up)


@pytest.mark.parametrize(
    "configured, expected",
    [
        ("198.51.100.9", "198.51.100.9"),
        ("2001:db8::7", "2001:db8::7"),
        ("kvm1-storage", "198.51.100.7"),
        ("typo", None),
    ],
)
def test_what_is_configured_is_never_replaced_by_the_address_of_the_default_route(configured, expected):
    assert address.of_host(configured, "kvm1") == expected


def test_nothing_configured_is_the_address_of_the_default_route_else_of_the_hosts_name(monkeypatch):
    class Probe(socket.socket):
        def connect(self, _where):
            raise OSError("Network is unreachable")

    monkeypatch.setattr(socket, "socket", Probe)
    assert address.of_host(None, "kvm1") == "203.0.113.1"
    assert address.of_host(None, "nobody") is None
