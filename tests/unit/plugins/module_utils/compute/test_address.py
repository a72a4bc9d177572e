# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""By which address others reach a host."""

from __future__ import annotations

import socket

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.host import address

NAMES = {"kvm1-storage": ["198.51.100.7"], "kvm1": ["2001:db8::1", "203.0.113.1"], "kvm6": ["2001:db8::6"]}


@pytest.fixture(autouse=True)
def resolver(monkeypatch):
    def look_up(name, _port, type=0):
        if name not in NAMES:
            raise socket.gaierror("Name or service not known")
        families = [(socket.AF_INET6 if ":" in text else socket.AF_INET, text) for text in NAMES[name]]
        return [(family, type, 0, "", (text, 0)) for family, text in families]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


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


def only_reaches(monkeypatch, *families, ipv6="2001:db8::77"):
    class Probe(socket.socket):
        def connect(self, _where):
            if self.family not in families:
                raise OSError("Network is unreachable")

        def getsockname(self):
            return {socket.AF_INET: ("192.0.2.77", 9), socket.AF_INET6: (ipv6, 9, 0, 0)}[self.family]

    monkeypatch.setattr(socket, "socket", Probe)


def test_nothing_configured_is_the_address_of_the_default_route_that_of_ipv4_first(monkeypatch):
    only_reaches(monkeypatch, socket.AF_INET, socket.AF_INET6)
    assert address.of_host(None, "kvm1") == "192.0.2.77"
    only_reaches(monkeypatch, socket.AF_INET6)
    assert address.of_host(None, "kvm1") == "2001:db8::77"


def test_an_address_that_counts_on_one_link_alone_is_none(monkeypatch):
    """A router told of itself and of no network: without the name of the link nobody reaches a host there."""
    only_reaches(monkeypatch, socket.AF_INET6, ipv6="fe80::5054:ff:fe12:3456")
    assert address.of_host(None, "kvm1") == "203.0.113.1"
    assert address.of_host(None, "nobody") is None


def test_without_a_default_route_it_is_the_address_of_the_hosts_name(monkeypatch):
    only_reaches(monkeypatch)
    assert address.of_host(None, "kvm1") == "203.0.113.1"
    assert address.of_host(None, "kvm6") == "2001:db8::6"
    assert address.of_host(None, "nobody") is None
