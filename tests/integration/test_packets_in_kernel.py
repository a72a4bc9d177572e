# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real bridges and firewalls: a guest whose filter a reload of the firewall removed is told of, and closed again while it runs; so
is one whose tap is off its bridge."""

from __future__ import annotations

import json

import pytest
from conftest import make_whole
from test_security_groups import comes_up, reaches

from playbooks import catalog, homes, vm

FLUSH = "for each in iptables ip6tables; do $each -F; $each -X; done; ebtables -t nat -F; ebtables -t nat -X"
OFF = "for tap in $(ls /sys/class/net | grep vnet); do ip link set $tap nomaster; done"
ON = "ip -br link show master br0 | grep -c vnet || true"


def told(done):
    """The output without its line breaks."""
    return " ".join(done.output.split())


@pytest.fixture
def web(prepared_lab, image, tmp_path):
    """(run(playbook, ...), the guest's host, its address): a guest in a group that lets in port 22 alone, while it serves 80."""
    make_whole(prepared_lab)
    path = tmp_path / "instances.yml"
    groups = {"berth_security_groups_defined": {"web": {"rules": [{"protocol": "tcp", "ports": 22}]}}}
    nic = {"network": "lan", "address": "{{ lab_guest_prefix }}.232"}
    hosts = {"web": vm(security_groups=["web"], networks=[nic])}
    path.write_text(
        json.dumps({"all": {"vars": catalog(image, **groups), "children": {"all_of_it": {"hosts": hosts}}}})
    )

    def run(playbook, *more, **checked):
        return prepared_lab.ansible_playbook("berth.kvm." + playbook, *more, inventory=[path], **checked)

    run("create")
    yield run, homes(prepared_lab)["web"], comes_up(prepared_lab, "web")
    make_whole(prepared_lab)


@pytest.mark.slow
def test_a_filter_that_is_gone_is_told_and_comes_back_while_the_guest_runs(prepared_lab, web):
    run, host, address = web
    assert not reaches(address)
    prepared_lab.sh(host, FLUSH)
    assert reaches(address), "this is what the firewall's reload does"
    assert "its packet filter is not in force" in told(run("show"))
    assert "PacketFilterNotInForce" in told(run("doctor", check=False))
    assert "(repaired)" in told(run("doctor", "-e", "berth_fix=true", check=False))
    assert not reaches(address)
    prepared_lab.sh(host, FLUSH + ";" + OFF)
    assert "is on no bridge" in told(run("create"))
    assert run("start", "--limit", "web").changed["web"] == 1
    assert not reaches(address) and prepared_lab.sh(host, ON).stdout.strip() == "1"
    assert run("start", "--limit", "web").changed["web"] == 0
    assert "Nothing was found" in told(run("doctor"))
