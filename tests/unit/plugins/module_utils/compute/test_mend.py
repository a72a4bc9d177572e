# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What somebody changed of a guest in libvirt is told by its name, and mended where that is safe."""

from __future__ import annotations

import json
import re
from unittest import mock
from xml.etree import ElementTree

import fake_libvirt
import pytest
from instance_case import made_with_nic
from mend_case import EDITS, MACHINE, NIC, attach, detach, edit, told

from ansible_collections.berth.kvm.plugins.module_utils.compute.connection import LibvirtTimeout, LibvirtUnavailable
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk_chain, virtual_size
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import BuildFailed, DiskChainChanged
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import (
    domain,
    domain_xml,
    hardware,
    live_differences,
    mend,
    packet_filter,
    power,
    seed,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.update_disks import update_disks
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import ledger
from ansible_collections.berth.kvm.plugins.module_utils.conductor import drift
from ansible_collections.berth.kvm.plugins.module_utils.model import hints, state_hints, volume_hints

MEND = " or with " + hints.mend("web1")


@pytest.fixture
def web(prepared, wanted, monkeypatch):
    return made_with_nic(prepared, wanted("web1"), monkeypatch, NIC, MACHINE)


def differs_after(case, state, bring, dry=False):
    """What the reply of module instance makes the table say."""
    answer = power.outcome_of(case.instance(), {"state": state, "mend": False}, dry, bring)["instance"]
    return drift.of_domain("web1", answer["domain_differs"]) if "domain_differs" in answer else "is not told"


@pytest.mark.parametrize(
    "state, bring",
    [
        ("stopped", lambda case: case.instance().stopped(1)),
        ("disks_updated", lambda case: update_disks(case.instance(), [{"name": "logs", "size_gb": 1}])),
        ("disks_updated", lambda case: update_disks(case.instance(), [])),
    ],
)
def test_what_a_stop_or_an_update_of_disks_leaves_of_what_somebody_changed_is_told(web, monkeypatch, state, bring):
    monkeypatch.setattr(ledger, "allocate", lambda *_: {"disk_gb": 1, "resources": {}})
    monkeypatch.setattr(virtual_size, "read", lambda *_: (1 << 30, 0, 0))
    edit(web, r">1</vcpu>", ">4</vcpu>")
    said = differs_after(web, state, lambda: bring(web))
    assert said == "live domain differs: vcpus 4 (record: 1); repaired at the next start" + MEND


def test_what_a_start_has_repaired_is_not_told_and_check_mode_compares_nothing(web):
    web.instance().stopped(1)
    edit(web, r">1</vcpu>", ">4</vcpu>")
    assert differs_after(web, "started", web.instance().would_start, dry=True) == "is not told"
    assert differs_after(web, "started", web.instance().started) is None


def test_nothing_is_told_where_nobody_changed_anything(web):
    assert told(web) is None and mend.mend(web.instance()) == []
    web.instance().stopped(0)
    assert told(web) is None


ITCO = "<watchdog model='itco' action='reset'/>"


@pytest.mark.parametrize("action", ["disabled", "reset"])
def test_the_watchdog_that_every_q35_machine_has_is_no_difference(web, action):
    """libvirt adds it to each definition from version 9.1."""
    image = {**web.record.spec["image"], "properties": {"hw_watchdog_action": action}}
    record = web.record.replace(spec={**web.record.spec, "image": image})
    text = fake_libvirt.completed(domain_xml.render(record, web.host.for_guests(None)), MACHINE, 3)
    text = text.replace("</devices>", ITCO + "</devices>")
    record = record.replace(spec=hardware.keep(record.spec, text))
    assert live_differences.between(record, text, text) == {}
    more = text.replace("</devices>", "<watchdog model='ib700' action='reset'/></devices>")
    assert "watchdog" in str(live_differences.between(record, None, more))


def test_memory_that_was_plugged_into_the_running_guest_is_its_flavors_and_no_device_of_somebody_else(web):
    text = web.domain.xml
    half = str(int(web.record.spec["flavor"]["memory_mb"]) * 512)
    dimm = "<memory model='dimm'><target><size unit='KiB'>%s</size></target></memory></devices>" % half
    assert live_differences.between(web.record, text.replace("</devices>", dimm), text) == {}
    other = text.replace("</devices>", "<memory model='nvdimm'/></devices>")
    assert list(live_differences.between(web.record, other, text)) == ["now"]


def test_a_running_guest_whose_packet_filter_somebody_took_away_is_told(web):
    """virsh update-device --live: its definition is as it was."""
    live = re.sub("<filterref[^>]*>", "", web.domain.xml)
    assert list(live_differences.between(web.record, live, web.domain.xml)) == ["now"]


VLAN_OF_THE_NETWORK = "<vlan><tag id='9'/></vlan>"
LIVE = {
    "a bridge": "<interface type='bridge'><source network='lan' portid='1' bridge='br7'/>",
    "macvtap": "<interface type='direct'><source network='lan' portid='1' dev='eth0' mode='bridge'/>",
    "a card of its pool": "<interface type='hostdev'><source><address type='pci'/></source>",
    "routed": "<interface type='network'><source network='lan' portid='1' bridge='virbr0'/>",
}


@pytest.mark.parametrize("kind", LIVE)
def test_a_nic_on_a_libvirt_network_is_no_difference_whatever_the_running_guest_is_plugged_into(web, kind):
    """The definition names the network; that of the running guest has what the network stands for as its type."""
    nic = {**NIC, "type": "network", "source": "lan", "vlan": None}
    record = web.record.replace(spec={**web.record.spec, "networks": [nic]})
    text = fake_libvirt.completed(domain_xml.render(record, web.host.for_guests(None)), MACHINE, 3)
    live = re.sub('<interface type="network"><source network="lan" */>', LIVE[kind] + VLAN_OF_THE_NETWORK, text)
    assert live != text and live_differences.between(record, live, text) == {}
    assert "lan9" in str(live_differences.between(record, text.replace('"lan"', '"lan9"'), text))


def test_a_disk_that_got_the_address_of_a_nic_that_somebody_took_is_in_no_way_of_mending(web, monkeypatch):
    """libvirt gives it the first address that is free; no two devices may have one."""
    at = ElementTree.tostring(ElementTree.fromstring(web.domain.xml).find("devices/interface/address")).decode()
    detach(web, "interface")
    monkeypatch.setattr(ledger, "allocate", lambda *_: {"disk_gb": 1, "resources": {}})
    monkeypatch.setattr(virtual_size, "read", lambda *_: (1 << 30, 0, 0))
    assert update_disks(web.instance(), [{"name": "data", "size_gb": 1}])
    edit(web, "(<serial>data</serial>)", r"\1" + at)
    assert mend.mend(web.instance()) and told(web) is None
    assert ">data</serial>" in web.domain.xml


@pytest.mark.follows("update_disks_to_attach")
def test_a_disk_that_somebody_detached_from_a_running_guest_is_told_and_attached_again_by_what_the_table_says(
    web, monkeypatch
):
    """virsh detach-disk --live: the definition still has it."""
    monkeypatch.setattr(ledger, "allocate", lambda *_: {"disk_gb": 1, "resources": {}})
    monkeypatch.setattr(virtual_size, "read", lambda *_: (1 << 30, 0, 0))
    update_disks(web.instance(), [{"name": "data", "size_gb": 1}])
    whole = web.domain.xml
    assert told(web) is None
    detach(web, "disk[serial='data']")
    lacking = web.domain.xml
    assert [*live_differences.between(web.record, lacking, whole)] == ["now"]
    said = "live domain differs: disk data missing; repaired at the next start or with %s"
    assert told(web) == said % volume_hints.update_disks_to_attach("web1") + MEND
    assert update_disks(web.instance(), []) and told(web) is None
    overlay = whole.replace("data-data.qcow2", "data-data.snap")
    assert live_differences.between(web.record, overlay, overlay) == {}, "a snapshot's layer is that disk"
    assert overlay != whole


def test_another_usb_controller_of_somebody_is_in_no_way_of_mending(web):
    web.instance().stopped(0)
    record = web.record
    kept = {
        **record.spec[hardware.KEY]["devices"],
        "controller/usb/0/qemu-xhci": "bus=0x00,domain=0x0000,function=0x0,slot=0x40,type=pci",
    }
    with web.host.store.instance_lock(web.uuid):
        spec = {**record.spec, hardware.KEY: {**record.spec[hardware.KEY], "devices": kept}}
        web.host.store.compare_and_swap(record, record.next(spec=spec))
    attach(web, "<controller type='usb' index='0' model='nec-xhci'><address type='pci' slot='0x41'/></controller>")
    EDITS["memory"][0](web)
    assert mend.mend(web.instance()) and "qemu-xhci" in web.domain.xml and "nec-xhci" not in web.domain.xml


def test_a_guest_that_somebody_renamed_in_libvirt_is_defined_by_the_name_that_it_has(web):
    """virsh domrename: libvirt refuses a definition of its uuid by another name."""
    web.instance().stopped(0)
    edit(web, "<name>%s</name>" % web.uuid, "<name>a&amp;b</name>")
    EDITS["memory"][0](web)
    assert mend.mend(web.instance()) and told(web) is None and web.domain.name() == "a&b"
    assert web.instance().started() and web.domain.isActive()


@pytest.mark.follows("mend")
@pytest.mark.parametrize("what", EDITS)
def test_what_somebody_changed_is_told_by_its_name_and_mended_when_it_is_asked_for(web, what):
    change, said = EDITS[what]
    web.instance().stopped(0)
    before = web.domain.xml
    change(web)
    said = said.replace("{own}", packet_filter.name(web.uuid, 0))
    assert told(web) == said + "; repaired at the next start" + MEND
    changed, record = web.domain.xml, web.record
    assert mend.mend(web.instance(), dry=True) and (web.domain.xml, web.record) == (changed, record)
    assert mend.mend(web.instance())
    assert told(web) is None and mend.mend(web.instance()) == []
    assert places(web.domain.xml) == places(before)
    assert web.record.history[-1]["event"] == "mend" and web.domain.isActive() is False


def places(xml):
    """{device: its address}"""
    found = {key: device.find("address") for key, device in hardware._devices(ElementTree.fromstring(xml))}
    return {key: place is not None and place.attrib for key, place in found.items()}


@pytest.mark.parametrize("what", EDITS)
def test_the_next_start_mends_it(web, what):
    web.instance().stopped(0)
    EDITS[what][0](web)
    assert web.instance().started() and told(web) is None and web.domain.isActive()


def test_a_guest_that_runs_goes_on_as_it_is(web, monkeypatch):
    """Its own definition is another than that of its next start: only the latter is mended."""
    live = web.domain.xml.replace("br0", "br9")
    inactive = fake_libvirt.CONSTANTS["VIR_DOMAIN_XML_INACTIVE"]
    monkeypatch.setattr(type(web.domain), "XMLDesc", lambda self, flags=0: self.xml if flags & inactive else live)
    assert told(web).endswith("; repaired at the next start") and mend.mend(web.instance()) == []
    edit(web, r">1</vcpu>", ">4</vcpu>")
    assert told(web).endswith(MEND) and mend.mend(web.instance())
    assert "vcpus" not in told(web) and "br9" in told(web) and web.domain.starts == 1


def test_a_locked_instance_is_not_mended(web):
    web.instance().stopped(0)
    record = web.record
    with web.host.store.instance_lock(web.uuid):
        web.host.store.compare_and_swap(record, record.next(lock={"by": "ann", "reason": "", "at": "now"}))
    EDITS["memory"][0](web)
    changed = web.domain.xml
    assert mend.mend(web.instance()) == []
    web.instance().started()
    assert ">32768<" in web.domain.xml and changed == web.domain.xml


def test_a_guest_with_other_disks_is_never_mended(web):
    web.instance().stopped(0)
    edit(web, r"root\.qcow2", "root.snapshot")
    EDITS["memory"][0](web)
    for dry in (True, False):
        with pytest.raises(DiskChainChanged):
            mend.mend(web.instance(), dry=dry)
    with pytest.raises(DiskChainChanged):
        web.instance().started()
    assert "root.snapshot" in web.domain.xml and ">32768<" in web.domain.xml


CELL = {"id": 0, "cpuset": [], "pcpuset": [0, 1], "memory_mb": 64, "pagesize": None, "cpu_pinning": {"0": 3, "1": 7}}
KINDS = {
    "plain": ({}, {}),
    "screen, watchdog and TPM": ({"hw_video_model": "vga", "hw_watchdog_action": "reset", "hw_tpm_version": "2.0"}, {}),
    "a model of NIC": ({"hw_vif_model": "e1000"}, {}),
    "another machine": ({"hw_machine_type": "pc"}, {}),
    "pinned": ({}, {"numa_topology": {"cells": [CELL]}}),
    "a device": ({}, {"pci_devices": [{"address": "0000:81:00.0", "request_id": "x"}]}),
    "a card": ({}, {"pci_devices": [{"address": "0000:81:00.1", "request_id": "nic:0"}]}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_compared_is_what_a_definition_gets(web, kind):
    properties, resources = KINDS[kind]
    nic = {**NIC, "type": "direct", "source": "card", "model": None} if kind == "a card" else NIC
    image = {**web.record.spec["image"], "properties": properties}
    spec = {**web.record.spec, "image": image, "networks": [nic]}
    record = web.record.replace(spec=spec, resources={**web.record.resources, **resources})
    text = fake_libvirt.completed(domain_xml.render(record, web.host.for_guests(None)), MACHINE, 3)
    record = record.replace(spec=hardware.keep(spec, text))
    assert live_differences.between(record, text, text) == {}


def test_what_is_in_the_way_of_mending_is_in_the_way_of_no_start(web):
    """A QEMU that no longer has the machine type of the record."""
    web.instance().stopped(0)
    EDITS["a machine type"][0](web)

    def refuse(_xml, _flags=0):
        raise fake_libvirt.libvirtError(67, "Emulator does not support machine type '%s'" % MACHINE)

    web.host.connection.defineXMLFlags = refuse
    assert web.instance().started() and web.domain.isActive() and "pc-i440fx-7.2" in told(web)


def test_of_a_record_of_an_older_version_nothing_is_told_and_its_start_mends_nothing(web):
    web.instance().stopped(0)
    record = web.record
    old = {part: value for part, value in record.spec.items() if part != hardware.KEY}
    with web.host.store.instance_lock(web.uuid):
        web.host.store.compare_and_swap(record, record.next(spec=old))
    EDITS["vcpus"][0](web)
    assert told(web) is None and web.instance().started() and ">4</vcpu>" in web.domain.xml
    assert mend.mend(web.instance()) and told(web) is None, "it is when it is asked for"
    assert hardware.machine(web.record.spec) == MACHINE


@pytest.mark.parametrize("error", [LibvirtTimeout("slow"), BuildFailed("reading the state: gone")])
def test_what_cannot_be_compared_does_not_fail_what_was_done(web, monkeypatch, error):
    """A create that is told as failed would be made on another host."""
    monkeypatch.setattr(domain, "definitions", mock.Mock(side_effect=error))
    assert power.outcome_of_domain(web.instance(), [], False) == {"domain_differs": {}}
    assert "memory" in power.outcome_of_domain(web.instance(), [["memory", "1", "2"]], False)["mended"]


def test_a_libvirt_that_breaks_after_the_work_does_not_have_another_host_do_it_again(web, monkeypatch):
    monkeypatch.setattr(domain, "state", mock.Mock(side_effect=LibvirtUnavailable("gone")))
    with pytest.raises(LibvirtUnavailable) as raised:
        power.summary_after(web.instance())
    assert raised.value.to_dict()["retryable"] is False


def test_an_instance_in_a_move_is_not_looked_at(web):
    assert not live_differences.is_looked_at(web.record.replace(op="0" * 32))
    assert not live_differences.is_looked_at(web.record.replace(role="OUT"))
    EDITS["vcpus"][0](web)
    assert mend.differing(web.instance(), web.record) and not mend.differing(
        web.instance(), web.record.replace(op="0" * 32)
    )
    assert drift.of_domain("web1", None) is None


def test_a_guest_that_was_undefined_while_it_runs_is_told_and_defined_again_on_request(web):
    """virsh undefine. libvirt would forget it as soon as it is off."""
    xml = web.domain.xml
    web.domain.undefineFlags()
    assert "libvirt's definition missing; repaired at the next start or with" in told(web)
    assert mend.mend(web.instance(), dry=True) and not web.domain.persistent
    assert mend.mend(web.instance()) and web.domain.persistent and web.domain.isActive()
    assert told(web) is None and live_differences.parts(
        ElementTree.fromstring(web.domain.xml)
    ) == live_differences.parts(ElementTree.fromstring(xml))


def test_a_guest_that_was_undefined_while_it_ran_is_defined_again_by_its_next_start(web):
    web.domain.undefineFlags()
    web.domain.end(0)
    assert web.uuid not in web.host.connection.domains and web.instance().started()
    assert web.domain.persistent and told(web) is None


@pytest.mark.parametrize("dry", [True, False])
def test_no_seed_is_made_where_the_disks_are_gone_too(web, dry):
    """Their storage is not mounted: it would be made below the mount point, or end in an error that has no code."""
    web.root.parent.rename(web.root.parent.with_name("away"))
    with pytest.raises(DiskChainChanged, match="root.qcow2 is missing") as refused:
        mend.mend(web.instance(), web.seed, dry=dry)
    assert state_hints.make_seed_anew("web1") not in refused.value.hint and not web.root.parent.exists()


@pytest.mark.follows("make_seed_anew")
def test_an_instance_whose_seed_is_gone_is_started_rebooted_and_moved_only_when_it_was_made_anew(web):
    """libvirt starts no guest one of whose files is not there: it would have been stopped for what cannot end."""
    seed_file = web.root.with_name(seed.FILE)
    was = seed_file.read_bytes()
    seed_file.unlink()
    disk_chain.check_delete(web.host, web.record)
    for act in (lambda: disk_chain.check(web.host, web.record), lambda: power.reboot(web.instance(), False, 1)):
        with pytest.raises(DiskChainChanged, match="seed.iso is missing") as refused:
            act()
        assert refused.value.hint == state_hints.make_seed_anew("web1") and told(web) is None
    assert web.state()[3] and web.instance().stopped(1)
    with pytest.raises(DiskChainChanged, match="seed.iso is missing"):
        web.instance().started()
    edit(web, r"<vcpu[^<]*<", "<vcpu>7<")
    assert len(mend.mend(web.instance(), web.seed, dry=True)) == 2 and not seed_file.exists()
    assert mend.mend(web.instance(), web.seed) and mend.mend(web.instance(), web.seed) == []
    assert seed_file.read_bytes() == was and seed_file.stat().st_mode & 0o777 == 0o600
    disk_chain.check(web.host, web.record)
    assert web.instance().started()


def test_the_diff_tells_what_was_and_what_is(web):
    """C05"""
    wanted = {"state": "stopped", "mend": False}
    told = power.outcome_of(web.instance(), wanted, False, lambda: web.instance().stopped(1))
    before, after = (json.loads(told["diff"][when]) for when in ("before", "after"))
    assert (before["state"], after["state"]) == ("running", "shutdown"), told["diff"]
