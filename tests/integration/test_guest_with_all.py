# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One guest that asks for all at once, seen from inside and in the XML that libvirt runs."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from playbooks import FLAVORS, catalog, homes, left, vm

SETTING = 'sed -i \'s/"cpu_dedicated_set": "[^"]*"/"cpu_dedicated_set": "%s"/\' /etc/berth/host.json'
# a pinned guest with a root, a data disk and a volume
FLAVOR = {"vcpus": 2, "memory_mb": 160, "root_gb": 1, "extra_specs": {"hw:cpu_policy": "dedicated"}}
LAN = {"type": "bridge", "source": "br0", "cidr": "{{ lab_guest_cidr }}", "gateway": "{{ lab_guest_gateway }}"}
CATALOG = {
    "berth_flavors": {**FLAVORS, "pinned": FLAVOR},
    "berth_networks_defined": {"lan": LAN, "back": {"type": "bridge", "source": "br0", "cidr": "192.0.2.0/24"}},
    "berth_volumes_defined": {"data": {"size_gb": 2}},
    "berth_security_groups_defined": {"ssh": {"rules": [{"protocol": "tcp", "ports": 22, "remote": LAN["cidr"]}]}},
}
GUEST = vm(
    "pinned",
    networks=[{"network": "lan", "address": "{{ lab_guest_prefix }}.235"}, {"network": "back", "address": "192.0.2.9"}],
    disks={"logs": {"size_gb": 3}},
    volumes=["data"],
    security_groups=["ssh"],
    user_data="#cloud-config\n# lab-marker: all\n",
)


@pytest.fixture
def dedicated(lab):
    """The host with two cells gives four of its CPUs to pinned guests, two of each cell."""
    lab.sh(1, SETTING % "2-5")
    yield lab
    lab.sh(1, SETTING % "")


def test_two_nics_three_disks_a_seed_pinned_cpus_a_fixed_address_and_a_security_group(dedicated, image, inventory):
    lab = dedicated
    path = inventory({"all-in-one": GUEST}, catalog(image, **CATALOG))
    lab.ansible_playbook("berth.kvm.create", inventory=[path])
    host = homes(lab)["all-in-one"]
    assert host == lab.host(1), "the only one with CPUs to pin"

    inside = lab.guest_facts("all-in-one", host, timeout=180, until=lambda said: said.get("ip"))
    assert (
        inside["disk"] == 1 << 30 and {2 << 30, 3 << 30} < set(inside["disks"].values()) and len(inside["disks"]) == 4
    )
    assert inside["extra"] == "new", "the volume, by its name"
    assert (inside["seed"], inside["marker"], inside["host"]) == ("cidata", "all", "all-in-one")
    assert inside["vcpus"] == 2 and inside["ip"].endswith(".235/24")

    (domain,) = lab.domains(host)
    live = ElementTree.fromstring(lab.sh(host, "virsh dumpxml " + domain).stdout)
    pins = {pin.get("vcpu"): pin.get("cpuset") for pin in live.findall("cputune/vcpupin")}
    assert sorted(pins) == ["0", "1"] and len(set(pins.values())) == 2 and set(pins.values()) < set("2345")
    nics = live.findall("devices/interface")
    assert inside["macs"].split(",") == [nic.find("mac").get("address") for nic in nics] and len(nics) == 2
    assert all(nic.find("filterref").get("filter").startswith("berth-") for nic in nics)
    disks = [disk for disk in live.findall("devices/disk") if disk.get("device") == "disk"]
    assert {"data", "logs"} <= {disk.findtext("serial") for disk in disks}
    files = [disk.find("source").get("file") for disk in live.findall("devices/disk")]
    assert sum("/volumes/" in file for file in files) == 1 and len(files) == 4, "root, data disk, volume and seed"

    again = lab.ansible_playbook("berth.kvm.create", inventory=[path])
    assert set(again.changed.values()) == {0}
    lab.ansible_playbook("berth.kvm.delete", "-e", "berth_delete_all=true", inventory=[path])
    assert left(lab) == {}
    lab.ansible_playbook("berth.kvm.delete_volume", "-e", "berth_volume=data", inventory=[path])
