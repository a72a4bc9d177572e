# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest keeps the machine type and the device addresses of its first definition, whatever becomes of its hosts."""

from __future__ import annotations

import copy
import json
from xml.etree import ElementTree

import pytest
from instance_case import made_with_nic

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import GuestNotSupported
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain, domain_xml, hardware
from ansible_collections.berth.kvm.plugins.module_utils.model.request_shape import request
from ansible_collections.berth.kvm.plugins.module_utils.model.shape import Fault

NIC = {"network": "lan", "type": "bridge", "source": "br0", "mac": "02:00:00:00:00:01", "address": None}
OLD, NEW = "pc-q35-7.2", "pc-q35-9.0"


@pytest.fixture
def web(prepared, wanted, monkeypatch):
    """web1, made by a libvirt of before."""
    return made_with_nic(prepared, wanted("web1"), monkeypatch, NIC, OLD)


def seen(case):
    """(machine type, {device: address}) as the guest sees them."""
    root = ElementTree.fromstring(case.domain.xml)
    places = {key: device.find("address") for key, device in hardware._devices(root)}
    return root.find("os/type").get("machine"), {key: at.attrib for key, at in places.items() if at is not None}


def without(record):
    return record.replace(spec={part: value for part, value in record.spec.items() if part != hardware.KEY})


def travelled(spec):
    """The request as the controller reads it from a host."""
    whole = {"id": "guest", "url": None, "disk_format": "qcow2", "min_disk": 0, "min_ram": 0}
    return request(json.loads(json.dumps({**spec, "image": {**spec["image"], **whole}})))


def define(case, record):
    domain_xml.define_guest(case.host.connection, record, case.host.for_guests(None))


def test_an_upgraded_host_defines_the_same_hardware_where_libvirt_lost_the_guest(web):
    before = seen(web)
    assert (
        before[0] == OLD
        and "interface/02:00:00:00:00:01" in before[1]
        and "controller/pci/1/pcie-root-port" in before[1]
    )
    web.instance().stopped(0)
    domain.remove(web.host.connection, web.uuid)
    web.host.connection.complete_as(NEW, 20)
    web.instance().started()
    assert seen(web) == before


def test_two_hosts_of_other_capabilities_give_the_guest_the_same_definition(web, make_host):
    other = make_host("kvm2", "22222222-3c6e-5d59-9d0b-3a1c9d7f1e2a", pool=web.host.pool)
    other.connection.complete_as(NEW, 20)
    moved = {**travelled(web.record.spec), "image": web.record.spec["image"]}
    domain_xml.define_guest(other.connection, web.record.replace(spec=moved), other.for_guests(None))
    before = seen(web)
    define(web, web.record)
    assert other.connection.domains[web.uuid].xml == web.domain.xml and seen(web) == before


def test_a_resize_keeps_the_hardware_and_a_new_disk_gets_a_place_of_its_own(web):
    before = seen(web)
    web.host.connection.complete_as(NEW, 20)
    record = web.record
    flavor = {**record.spec["flavor"], "memory_mb": 128, "ephemeral_gb": 1}
    define(web, record.replace(spec={**record.spec, "flavor": flavor}))
    machine, places = seen(web)
    # the seed, the last disk, has moved on to the next name
    assert machine == OLD and {**before[1], **places} == places and len(places) == len(before[1]) + 1


def test_a_record_without_it_means_what_it_meant(web):
    web.host.connection.complete_as(NEW, 20)
    define(web, without(web.record))
    assert seen(web)[0] == NEW


def test_another_machine_type_that_is_asked_for_begins_anew(web):
    record = web.record
    image = {**record.spec["image"], "properties": {"hw_machine_type": "pc"}}
    define(web, record.replace(spec={**record.spec, "image": image}))
    assert seen(web)[0] == "pc"


def test_a_host_without_the_machine_type_is_named_before_anything_is_moved_there(web, make_host):
    other = make_host("kvm2", "22222222-3c6e-5d59-9d0b-3a1c9d7f1e2a")
    other.connection.complete_as(NEW, 20)
    with pytest.raises(GuestNotSupported) as refused:
        other.check_machine(hardware.machine(web.record.spec))
    assert OLD in str(refused.value) and refused.value.retryable


def test_the_copy_in_the_definition_does_not_hold_it_twice(web):
    assert hardware.KEY not in json.loads(domain.mark(web.domain.xml)["record"])["spec"]


LIES = {
    "machine": "pc'/><x", "devices": {"disk/vda": "type=pci,bus='0"}, "wished": "{{ x }}",
}  # fmt: skip


@pytest.mark.parametrize("part", LIES)
def test_what_a_host_says_of_the_hardware_is_checked_where_it_enters(web, part):
    spec = copy.deepcopy(web.record.spec)
    assert travelled(spec)[hardware.KEY] == spec[hardware.KEY]
    spec[hardware.KEY][part] = LIES[part]
    with pytest.raises(Fault):
        travelled(spec)
