# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Security groups on real hosts: who is let in is let in, who is not is not, at once when a rule changes and after a live move."""

from __future__ import annotations

import json
import socket
import time

import pytest
from conftest import make_whole

from playbooks import catalog, homes, left, vm

FILTER_OF_ONE = "for f in $(virsh -q nwfilter-list | grep -o 'berth-.*'); do virsh nwfilter-dumpxml $f; done"
FILTERS = "virsh -q nwfilter-list | grep -c ' berth-' || true"


def reaches(address, port=80):
    try:
        socket.create_connection((address, port), timeout=4).close()
    except OSError:
        return False
    return True


def comes_up(lab, name):
    """The guest's address, once it answers its own console."""
    return lab.guest_facts(name, timeout=180, until=lambda said: said.get("ip"))["ip"].partition("/")[0]


@pytest.fixture(scope="module")
def guests(prepared_lab, image, tmp_path_factory):
    """create(port) runs the playbook with a group that opens a port -> the run; two guests, of which one is in that group."""
    make_whole(prepared_lab)
    path = tmp_path_factory.mktemp("groups") / "instances.yml"

    def create(port, playbook="berth.kvm.create", *more):
        rule = {"protocol": "tcp", "ports": port, "remote": "{{ lab_guest_cidr }}"}
        own = {"protocol": "tcp", "ports": 443, "remote_group": "web"}
        groups = {"berth_security_groups_defined": {"web": {"rules": [rule, own]}}}
        hosts = {
            "web": vm(security_groups=["web"], networks=[{"network": "lan", "address": "{{ lab_guest_prefix }}.231"}]),
            "free": vm(),
        }
        path.write_text(
            json.dumps({"all": {"vars": catalog(image, **groups), "children": {"instances": {"hosts": hosts}}}})
        )
        return prepared_lab.ansible_playbook(playbook, *more, inventory=[path])

    yield prepared_lab, create
    make_whole(prepared_lab)


@pytest.mark.slow
def test_a_guest_is_reached_on_the_ports_of_its_groups_alone_and_a_change_is_at_work_at_once(guests):
    """A09, R30: on the guest that runs, and on the host that it moves to."""
    lab, create = guests
    create(22)
    web, free = comes_up(lab, "web"), comes_up(lab, "free")
    here = homes(lab)["web"]
    assert "srcipaddr='%s'" % web in lab.sh(here, FILTER_OF_ONE).stdout, "the group lets in its own member"
    assert reaches(free), "without a group all may come in, also behind the anti-spoofing of a guest that asked DHCP"
    time.sleep(2)
    assert not reaches(web)
    changed = create(80)
    assert changed.changed["web"] == 1 and changed.changed["free"] == 0
    assert reaches(web)
    assert set(create(80).changed.values()) == {0}
    create(80, "berth.kvm.live_migrate", "--limit", "web")
    there = homes(lab)["web"]
    assert there != here and reaches(web)
    create(22)
    assert not reaches(web), "the filter has moved with it"
    create(22, "berth.kvm.delete", "-e", "berth_delete_all=true")
    assert left(lab) == {}
    assert {lab.sh(row["name"], FILTERS).stdout.strip() for row in lab.status()["hosts"]} == {"0"}
