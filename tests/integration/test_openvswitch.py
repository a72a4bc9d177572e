# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A NIC with a VLAN on a bridge of Open vSwitch. Its userspace datapath needs no module of the kernel."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from playbooks import catalog, homes, vm

BEGIN = """
mkdir -p /run/openvswitch /etc/openvswitch /var/log/openvswitch
ovsdb-tool create /run/openvswitch/conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server --remote=punix:/run/openvswitch/db.sock --pidfile --detach --log-file /run/openvswitch/conf.db
ovs-vsctl --timeout=10 --no-wait init
ovs-vswitchd --pidfile --detach --log-file
ovs-vsctl --timeout=10 add-br ovsbr0 -- set bridge ovsbr0 datapath_type=netdev
"""
# the host itself on two VLANs of the bridge
PROBES = """
for tag in 7 8; do
  ovs-vsctl --timeout=10 add-port ovsbr0 probe$tag tag=$tag -- set interface probe$tag type=internal
  ip link set probe$tag up
done
"""
END = """
ovs-vsctl --timeout=10 del-br ovsbr0
ovs-appctl -t ovs-vswitchd exit
ovs-appctl -t ovsdb-server exit
rm -rf /run/openvswitch
"""
ADDRESS = "198.51.100.9"


@pytest.fixture
def switched(lab):
    """The second host has the bridge."""
    if lab.sh(2, "command -v ovs-vswitchd", check=False).rc:
        pytest.skip("openvswitch-switch is not installed: lab/setup --dev installs it")
    lab.sh(2, "set -e\n" + BEGIN)
    yield lab
    lab.sh(2, END)


def answers(lab, probe):
    """Whether the guest answers on this VLAN."""
    script = "ip addr add 198.51.100.1/24 dev %s; ping -c 3 -W 2 %s; code=$?; ip addr flush dev %s; exit $code"
    return lab.sh(2, script % (probe, ADDRESS, probe), check=False).rc == 0


@pytest.mark.slow
def test_a_nic_is_a_port_of_the_bridge_that_a_host_tells_and_is_in_its_vlan_alone(switched, image, inventory):
    lab = switched
    tenants = {"type": "bridge", "source": "ovsbr0", "virtualport": "openvswitch", "vlan": 7, "cidr": "198.51.100.0/24"}
    nic = {"network": "tenants", "address": ADDRESS}
    path = inventory({"tagged": vm(networks=[nic])}, catalog(image, berth_networks_defined={"tenants": tenants}))
    lab.ansible_playbook("berth.kvm.create", inventory=[path])
    host = homes(lab)["tagged"]
    assert host == lab.host(2), "the only one that tells of the bridge"
    (domain,) = lab.domains(host)
    live = ElementTree.fromstring(lab.sh(host, "virsh dumpxml " + domain).stdout)
    tap = live.find("devices/interface/target").get("dev")
    port = lab.sh(host, "ovs-vsctl --timeout=10 port-to-br %s && ovs-vsctl --timeout=10 get port %s tag" % (tap, tap))
    assert port.stdout.split() == ["ovsbr0", "7"]

    lab.guest_facts("tagged", host, timeout=180, until=lambda said: said.get("ip") == ADDRESS + "/24")
    lab.sh(host, PROBES)
    assert [answers(lab, probe) for probe in ("probe7", "probe8")] == [True, False]

    lab.ansible_playbook("berth.kvm.delete", "--limit", "tagged", inventory=[path])
    assert tap not in lab.sh(host, "ovs-vsctl --timeout=10 list-ports ovsbr0").stdout.split()
