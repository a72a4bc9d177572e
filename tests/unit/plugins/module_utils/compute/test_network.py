# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a guest's NICs are on must be here before anything of it is built, and what cannot be asked is not absent."""

from __future__ import annotations

import errno
import types

import fake_libvirt
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import network
from ansible_collections.berth.kvm.plugins.module_utils.model.unknown_names import NetworkNotFound

NO_SUPPORT, SYSTEM = (fake_libvirt.CONSTANTS["VIR_ERR_%s" % name] for name in ("NO_SUPPORT", "SYSTEM_ERROR"))
RPC = fake_libvirt.CONSTANTS["VIR_FROM_RPC"]


class Libvirt:
    """The networks lan (active) and idle, the network filter clean-traffic."""

    def __init__(self):
        self.networks = {"lan": True, "idle": False}
        self.filters = ["clean-traffic"]
        self.fails = None

    def getLibVersion(self):  # noqa: N802
        return 9000000

    def networkLookupByName(self, name):  # noqa: N802 -- libvirt's own name
        if name not in self.networks:
            raise fake_libvirt.libvirtError(43, "no network")
        return types.SimpleNamespace(isActive=lambda: self.networks[name])

    def nwfilterLookupByName(self, name):  # noqa: N802
        if name not in self.filters:
            raise fake_libvirt.libvirtError(62, "no filter")
        return types.SimpleNamespace()

    def listAllNetworks(self, _flags):  # noqa: N802
        return [types.SimpleNamespace(name=lambda name=name: name) for name in self.networks if self.networks[name]]

    def listAllNWFilters(self, _flags):  # noqa: N802
        if self.fails:
            raise fake_libvirt.libvirtError(self.fails[0], "not now", RPC, self.fails[1])
        return [types.SimpleNamespace(name=lambda name=name: name) for name in self.filters]


@pytest.fixture
def libvirt(monkeypatch):
    monkeypatch.setattr(network.packet_filter, "reads_one", lambda _path: True)
    monkeypatch.setattr(connection, "libvirt", fake_libvirt.library())
    return Libvirt()


@pytest.fixture
def sys_net(tmp_path):
    """The bridge br0 and the plain interface eth0."""
    (tmp_path / "br0" / "bridge").mkdir(parents=True)
    (tmp_path / "eth0").mkdir()
    return str(tmp_path)


def bridge(source):
    return {"type": "bridge", "source": source}


def on_network(source, **more):
    return {"type": "network", "source": source, **more}


@pytest.mark.parametrize("nics", [None, [], [bridge("br0")], [on_network("lan", nwfilter="clean-traffic")]])
def test_what_is_there_is_accepted(libvirt, sys_net, nics):
    assert network.check(libvirt, nics, sys_net) is None


@pytest.mark.parametrize(
    "nic, missing",
    [
        (bridge("br9"), "bridge br9"),
        (bridge("eth0"), "bridge eth0"),
        (on_network("wan"), "active libvirt network wan"),
        (on_network("idle"), "active libvirt network idle"),
        (on_network("lan", nwfilter="typo"), "network filter typo"),
    ],
    ids=["no such bridge", "an interface that is no bridge", "no such network", "a network that is off", "no filter"],
)
def test_what_is_missing_is_named_before_anything_is_built(libvirt, sys_net, nic, missing):
    with pytest.raises(NetworkNotFound) as refused:
        network.check(libvirt, [bridge("br0"), nic], sys_net)
    assert refused.value.details["missing"] == [missing]


def test_all_that_is_missing_is_told_at_once(libvirt, sys_net):
    with pytest.raises(NetworkNotFound) as refused:
        network.check(libvirt, [bridge("br9"), on_network("wan", nwfilter="typo")], sys_net)
    assert refused.value.details["missing"] == ["bridge br9", "active libvirt network wan", "network filter typo"]


def test_a_host_tells_what_nics_can_be_on(libvirt, sys_net):
    warnings = []
    assert network.available(libvirt, warnings, sys_net) == {
        "bridges": ["br0"],
        "networks": ["lan"],
        "network_filters": ["clean-traffic"],
        "packet_filters": ["addresses", "ports"],
        "ovs_bridges": [],
        "vlan_bridges": [],
        "bridge_links": {},
    }
    assert warnings == []


@pytest.mark.parametrize(
    "fails",
    [(NO_SUPPORT, -1), (SYSTEM, errno.ENOENT)],
    ids=["a driver that is not built in", "no socket of its daemon"],
)
def test_a_libvirt_without_filters_has_none(libvirt, sys_net, fails):
    libvirt.fails, warnings = fails, []
    found = network.available(libvirt, warnings, sys_net)
    assert (found["network_filters"], found["packet_filters"]) == ([], [])
    assert warnings == []


def test_what_cannot_be_asked_is_left_out_with_a_warning_and_is_not_called_absent(libvirt, sys_net):
    libvirt.fails, warnings = (SYSTEM, errno.ECONNREFUSED), []
    found = network.available(libvirt, warnings, sys_net)
    assert sorted(found) == ["bridge_links", "bridges", "networks", "ovs_bridges", "vlan_bridges"]
    assert warnings == ["network filters cannot be listed: not now", "packet filters cannot be listed: not now"]


def test_a_name_that_nobody_could_show_safely_or_that_is_a_guests_own_filter_is_not_told(libvirt, sys_net):
    libvirt.filters += ["a\x1b[2J", "berth-0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a-0"]
    assert network.available(libvirt, [], sys_net)["network_filters"] == ["clean-traffic"]
