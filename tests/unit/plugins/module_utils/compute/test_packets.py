# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packets of a running guest go as its record says again, by a start, a repair or the doctor, while it runs."""

from __future__ import annotations

import pytest
from instance_case import made_with_nic
from kernel_case import Switch
from mend_case import told
from packet_filter_case import nic, rule, secured

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import mend, network, packet_path, power, settled
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import doctor as host_doctor
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import moving_host
from ansible_collections.berth.kvm.plugins.module_utils.conductor import doctor, drift
from ansible_collections.berth.kvm.plugins.module_utils.model import packet_hints

RULES = ("iptables-save", "ip6tables-save", "ebtables-save")


@pytest.fixture
def web(prepared, wanted, monkeypatch, kernel):
    """A running guest in a security group, on a host whose libvirt makes the rules of a filter that changes."""
    monkeypatch.setattr(network, "check", lambda *_: None)
    asked = nic(secured(rule(ports="80-80", remote=["192.0.2.1/32"])), address="192.0.2.201/24")
    case = made_with_nic(prepared, wanted("web1"), monkeypatch, asked)
    case.domain.xml = case.domain.xml.replace('<source bridge="br0"', '<target dev="vnet1" /><source bridge="br0"')
    assert "vnet1" in case.domain.xml
    made, defined = {name: kernel.says[name] for name in RULES}, prepared.connection.nwfilterDefineXML
    before = {}

    def define(xml):
        if before.get("xml") != xml:
            kernel.says.update(made)
        before["xml"] = xml
        return defined(xml)

    monkeypatch.setattr(prepared.connection, "nwfilterDefineXML", define)
    before["xml"] = next(iter(packet_path.packet_filter.render(case.record).values()))
    return case


def flush(kernel):
    kernel.says.update(dict.fromkeys(RULES, ""))


def wrong(case):
    return [each["code"] for each in packet_path.packets_of(case.host.connection, case.record)]


@pytest.mark.follows("repair_packets")
def test_a_start_of_the_running_guest_brings_its_filter_back(web, kernel):
    assert wrong(web) == [] and web.instance().started() is False
    flush(kernel)
    assert wrong(web) == [packet_path.OPEN] and web.instance().would_start()
    assert web.instance().started() is True
    assert wrong(web) == [] and web.instance().started() is False and not web.instance().would_start()


def start_of(case, dry):
    """The reply of module instance to state started."""
    instance = case.instance()
    bring = instance.would_start if dry else instance.started
    return power.outcome_of(instance, {"state": "started", "mend": False, "seed": None, "spec": None}, dry, bring)


def test_a_start_that_only_repairs_packets_says_what_it_repaired(web, kernel):
    flush(kernel)
    would, did = start_of(web, True), start_of(web, False)
    assert would["changed"] and did["changed"]
    mended = "network interface %s" % nic()["mac"]
    assert would["instance"]["mended"].startswith("would be repaired: " + mended)
    assert did["instance"]["mended"].startswith("repaired: " + mended) and did["instance"]["domain_differs"] == {}
    assert would["instance"]["domain_differs"] == {}
    well = start_of(web, False)
    assert not well["changed"] and "mended" not in well["instance"]


def test_what_a_start_could_not_repair_is_told_beside_what_it_repaired(web, kernel, monkeypatch):
    flush(kernel)
    kernel.link("vnet1", master=None)
    monkeypatch.setattr(packet_path, "_plug", lambda *_: None)
    told = start_of(web, False)["instance"]
    assert "mended" in told and [each["code"] for each in told["domain_differs"]["kernel"]] == [packet_path.UNPLUGGED]


def test_a_start_of_a_guest_that_was_off_says_nothing_of_a_repair(web, kernel):
    web.instance().stopped(1)
    told = start_of(web, False)
    assert told["changed"] and "mended" not in told["instance"]


def test_its_filter_is_afterwards_what_it_was(web, kernel):
    flush(kernel)
    web.instance().started()
    assert not packet_path.packet_filter.missing(web.host.connection, web.record)


def test_a_start_puts_the_tap_back(web, kernel):
    kernel.link("vnet1", master=None)
    assert wrong(web) == [packet_path.UNPLUGGED] and web.instance().started() is True
    assert wrong(web) == []


def test_the_repair_on_request_does_it_too_and_a_dry_one_only_says_it(web, kernel):
    flush(kernel)
    dry = mend.mend(web.instance(), dry=True)
    assert [part for part, _expected, _has in dry] == ["network interface %s" % nic()["mac"]] and wrong(web)
    assert mend.mend(web.instance()) == dry and wrong(web) == []
    assert mend.mend(web.instance()) == []


PORTS = {"on another bridge": ["br1", 7], "with another tag": ["br0", 9], "without a tag": ["br0", None], "gone": None}


@pytest.mark.parametrize("before", PORTS)
def test_a_start_puts_the_port_of_a_switch_back_with_its_tag(web, kernel, before):
    switch = Switch("br0", "br1", **({"vnet1": PORTS[before]} if PORTS[before] else {}))
    kernel.says["ovs-vsctl"] = switch
    port = "<virtualport type='openvswitch'><parameters interfaceid='6c1f'/></virtualport><target"
    web.domain.xml = web.domain.xml.replace('<target dev="vnet1"', port + ' dev="vnet1"')
    record = web.record
    record.spec["networks"][0]["vlan"] = 7
    _wrong, left = packet_path.mend_packets(web.host.connection, record)
    assert switch.ports["vnet1"] == ["br0", 7] and left == []
    assert 'external-ids:iface-id="6c1f"' in switch.ids["vnet1"], "OVN and OpenFlow controllers know it by this"


def test_a_start_takes_the_port_of_a_bridge_out_of_other_vlans(web, kernel, monkeypatch):
    kernel.says["bridge"] = '[{"ifname":"vnet1","vlans":[{"vlan":1,"flags":["PVID","Egress Untagged"]}]}]'
    record = web.record
    record.spec["networks"][0]["vlan"] = 7
    calls, run = [], kernel.run
    monkeypatch.setattr(
        packet_path, "run", lambda arguments, **limits: calls.append(arguments) or run(arguments, **limits)
    )
    packet_path.mend_packets(web.host.connection, record)
    assert [call[1:] for call in calls if call[:2] == ["bridge", "vlan"]] == [
        ["vlan", "del", "dev", "vnet1", "vid", "1-4094"],
        ["vlan", "add", "dev", "vnet1", "vid", "7", "pvid", "untagged"],
    ]


@pytest.mark.follows("let_packets_pass")
def test_what_others_drop_is_told_and_left_alone(web, kernel):
    kernel.says["iptables-save"] = ":FORWARD DROP\n".join(kernel.says["iptables-save"].split(":FORWARD ACCEPT [0:0]\n"))
    kernel.drop("iptables-save", "-A FORWARD -j libvirt-in-post")
    before = dict(kernel.says)
    assert wrong(web) == [packet_path.CLOSED] and web.instance().started() is False and not web.instance().would_start()
    assert kernel.says == before
    assert packet_hints.let_packets_pass() in drift.of_packets("web1", mend.differing(web.instance(), web.record))
    kernel.says["iptables-save"] += "-A FORWARD -i br0 -o br0 -j ACCEPT\n"
    assert wrong(web) == []


@pytest.mark.follows("make_bridge_of_tap")
def test_whose_bridge_is_gone_is_told_to_make_it_before_a_start(web, kernel):
    kernel.link("br0", ifname="brx")
    kernel.link("vnet1", master="brx")
    said = drift.of_packets("web1", mend.differing(web.instance(), web.record))
    assert said.endswith("not on br0, which is gone. " + packet_hints.make_bridge_of_tap("web1"))
    kernel.link("brx", ifname="br0")
    said = drift.of_packets("web1", mend.differing(web.instance(), web.record))
    assert said.endswith("not on br0. " + packet_hints.repair_packets("web1"))
    assert web.instance().started() is True and wrong(web) == []


def test_the_facts_tell_it_and_create_looks_at_such_an_instance(web, kernel):
    assert told(web) is None
    flush(kernel)
    said = told(web)
    assert said.startswith(
        "network interface 02:00:00:00:00:01: its packet filter is not in force: ebtables has no chain"
    )
    assert "berth.kvm.start --limit web1" in said
    differs = mend.differing(web.instance(), web.record)
    assert drift.of_domain("web1", differs) == said
    assert settled.look(web.host, [{"uuid": web.uuid, "domain_differs": differs}]) == []


@pytest.mark.follows("packets_of_guest")
def test_the_doctor_finds_and_repairs_it(web, kernel, monkeypatch):
    monkeypatch.setattr(host_doctor.domains, "states", lambda _libvirt: {web.uuid: (web.domain, "running")})
    flush(kernel)
    (found,) = host_doctor._packets(web.host, [web.record], False)
    assert (found["code"], found["severity"], found["fixed"]) == (packet_path.OPEN, "error", False)
    assert "berth_fix=true" in doctor.TODO[found["code"]]("kvm1", "web1", found["said"])
    (found,) = host_doctor._packets(web.host, [web.record], True)
    assert found["fixed"] and list(host_doctor._packets(web.host, [web.record], False)) == []


def test_the_doctor_leaves_to_its_next_run_what_it_has_no_time_for(web, kernel, monkeypatch):
    monkeypatch.setattr(host_doctor.domains, "states", lambda _libvirt: {web.uuid: (web.domain, "running")})
    monkeypatch.setattr(host_doctor, "MENDING", 0)
    flush(kernel)
    (found,) = host_doctor._packets(web.host, [web.record], True)
    assert not found["fixed"] and wrong(web) == [packet_path.OPEN]


def test_the_doctor_tells_what_it_could_not_read(web, kernel, monkeypatch):
    monkeypatch.setattr(host_doctor.domains, "states", lambda _libvirt: {web.uuid: (web.domain, "running")})
    del kernel.says["ebtables-save"]
    with pytest.raises(packet_path.PacketRulesNotRead, match="ebtables"):
        list(host_doctor._packets(web.host, [web.record], False))


def test_a_guest_that_has_arrived_is_looked_at_as_soon_as_it_runs(web, kernel, monkeypatch):
    arrived = object.__new__(moving_host.Effects)
    arrived.connection, arrived.warnings = web.host.connection, []
    monkeypatch.setattr(moving_host.Effects, "check_owner", lambda self, record: None)
    monkeypatch.setattr(moving_host.gate, "permit", lambda uuid: None)
    flush(kernel)
    arrived.resume(web.record)
    assert wrong(web) == [] and arrived.warnings == []
    kernel.link("vnet1", master=None)
    monkeypatch.setattr(packet_path, "_plug", lambda *_: None)
    arrived.resume(web.record)
    (said,) = arrived.warnings
    assert (
        said.startswith("web1: network interface %s: " % nic()["mac"]) and packet_hints.repair_packets("web1") in said
    )

    def unread(*_asked):
        raise packet_path.PacketRulesNotRead("iptables failed")

    arrived.warnings = []
    monkeypatch.setattr(packet_path, "mend_packets", unread)
    arrived.resume(web.record)  # it runs, whatever the look says
    assert arrived.warnings == ["web1 runs, but whether its packets pass is not known: iptables failed"]
