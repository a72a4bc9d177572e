# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guest in libvirt: what is defined over, ended and removed, and what is never touched."""

from __future__ import annotations

import time

import fake_libvirt
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import BuildFailed
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import agent, domain, gate, health
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InstanceExists

WEB = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
MARK = '<metadata><berth:instance xmlns:berth="%s"/></metadata>' % gate.NAMESPACE
ERASED = fake_libvirt.CONSTANTS["VIR_DOMAIN_UNDEFINE_MANAGED_SAVE"]
KEPT = fake_libvirt.CONSTANTS["VIR_DOMAIN_UNDEFINE_KEEP_NVRAM"]


def xml(metadata=MARK, more=""):
    return "<domain><name>web1</name><uuid>%s</uuid>%s%s</domain>" % (WEB, metadata, more)


@pytest.fixture
def libvirt(tmp_path, monkeypatch):
    """A libvirt on which any guest may start."""
    monkeypatch.setattr(connection, "libvirt", fake_libvirt.library())
    monkeypatch.setattr(domain, "POLL", 0)
    made = fake_libvirt.FakeConnection(str(tmp_path / "run"), str(tmp_path))
    made.gate_is_read = False
    return made


@pytest.mark.parametrize("runs", [True, False], ids=["on", "off"])
def test_a_domain_that_is_not_berths_is_neither_ended_nor_removed(libvirt, runs):
    """I9."""
    foreign = libvirt.defineXMLFlags(xml(metadata=""))
    foreign.now = fake_libvirt.RUNNING if runs else fake_libvirt.SHUTOFF
    with pytest.raises(InstanceExists, match=WEB):
        domain.remove(libvirt, WEB)
    assert (libvirt.domains, bool(foreign.isActive())) == ({WEB: foreign}, runs)


@pytest.mark.parametrize("runs", [True, False], ids=["on", "off"])
def test_a_managed_guest_goes_with_all_that_libvirt_keeps_but_its_uefi_variables(libvirt, runs):
    """Those lie among the disks, which may be another host's."""
    guest = libvirt.defineXMLFlags(xml())
    guest.now = fake_libvirt.RUNNING if runs else fake_libvirt.SHUTOFF
    assert domain.remove(libvirt, WEB) is True
    assert (libvirt.domains, guest.now) == ({}, fake_libvirt.SHUTOFF)
    assert guest.undefined_with & ERASED and guest.undefined_with & KEPT
    assert domain.remove(libvirt, WEB) is False


def test_a_guest_without_a_lasting_definition_is_ended_and_there_is_nothing_to_undefine(libvirt):
    """What a live migration that was given up leaves on its destination."""
    guest = libvirt.defineXMLFlags(xml())
    guest.now = fake_libvirt.PAUSED
    guest.persistent = False
    assert domain.remove(libvirt, WEB) is True
    assert (guest.now, guest.undefined_with) == (fake_libvirt.SHUTOFF, None)


def test_a_guest_that_vanishes_while_it_is_removed_is_removed(libvirt, monkeypatch):
    guest = libvirt.defineXMLFlags(xml())

    def undefine(_flags):
        raise fake_libvirt.libvirtError(fake_libvirt.CONSTANTS["VIR_ERR_NO_DOMAIN"], "no domain")

    monkeypatch.setattr(guest, "undefineFlags", undefine)
    assert domain.remove(libvirt, WEB) is True


@pytest.mark.parametrize("call, last", [("isActive", False), ("isPersistent", False), ("XMLDesc", True)])
def test_a_guest_that_vanishes_while_its_definitions_are_read_has_none(libvirt, monkeypatch, call, last):
    """Another run deletes it; what looks at all guests, such as the doctor, goes on."""
    guest = libvirt.defineXMLFlags(xml())

    def gone(*_flags):
        raise fake_libvirt.libvirtError(fake_libvirt.CONSTANTS["VIR_ERR_NO_DOMAIN"], "no domain")

    assert domain.definitions(guest) == (None, guest.xml)
    monkeypatch.setattr(guest, call, gone)
    assert domain.definitions(guest) in ((None, None), (None, guest.xml))
    assert not last or domain.definitions(guest) == (None, None)


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (domain.state, None),
        (domain.is_active, False),
        (domain.definition, None),
        (domain.is_saved, False),
        (domain.is_saved_to_file, False),
        (domain.has_crashed, False),
        (lambda libvirt, uuid: health.check_answers(libvirt, uuid, "web1", "kvm1"), None),
        (domain.remove, True),
    ],
)
def test_a_guest_that_vanishes_once_it_is_found_is_gone_like_one_that_is_not_found(libvirt, monkeypatch, ask, answer):
    """Another run deletes it at the same time."""
    guest = libvirt.defineXMLFlags(xml())
    del libvirt.domains[WEB]
    monkeypatch.setattr(libvirt, "lookupByUUIDString", lambda _uuid: guest)
    try:
        found = ask(libvirt, WEB)
    except BuildFailed as error:
        found = error
    assert found is answer


def test_another_failure_of_libvirt_is_not_taken_for_a_guest_that_is_gone(libvirt, monkeypatch):
    guest = libvirt.defineXMLFlags(xml())

    def fail(*_):
        raise fake_libvirt.libvirtError(1, "internal error")

    for method in ("state", "isPersistent"):
        monkeypatch.setattr(guest, method, fail)
    for ask in (domain.state, domain.remove):
        with pytest.raises(BuildFailed, match="internal error"):
            ask(libvirt, WEB)


def test_a_domain_that_is_not_berths_is_not_defined_over(libvirt):
    foreign = libvirt.defineXMLFlags(xml(metadata=""))
    before = foreign.xml
    with pytest.raises(InstanceExists, match=WEB):
        domain.define(libvirt, WEB, xml())
    assert libvirt.domains[WEB].xml == before


@pytest.mark.parametrize(
    "device",
    [
        "<disk><source file='/srv/berth/instances/%s/root.qcow2'/></disk>" % WEB,
        "<serial><log file='/var/log/libvirt/qemu/%s-console.log'/></serial>" % WEB,
    ],
    ids=["a disk", "the console's log alone"],
)
def test_a_guest_whose_metadata_somebody_removed_is_berths_by_its_files(libvirt, device):
    bare = xml(metadata="", more="<devices>%s</devices>" % device)
    assert domain.is_managed(libvirt.defineXMLFlags(bare))
    assert domain.define(libvirt, WEB, bare.replace("</uuid>", "</uuid>" + MARK)) == libvirt.domains[WEB].xml
    libvirt.defineXMLFlags(bare)
    assert domain.remove(libvirt, WEB) is True


def test_files_of_another_instance_do_not_make_a_domain_berths(libvirt):
    other = WEB.replace("0b7f", "1c80")
    device = "<devices><disk><source file='/srv/berth/instances/%s/root.qcow2'/></disk></devices>" % other
    libvirt.defineXMLFlags(xml(metadata="", more=device))
    with pytest.raises(InstanceExists, match=WEB):
        domain.remove(libvirt, WEB)


def test_a_part_of_the_definition_that_libvirt_drops_is_an_error(libvirt, monkeypatch):
    """A guest without its disk, or its limit of memory, is not the one that was asked for."""
    asked = xml(more="<memory unit='MiB'>64</memory><devices><disk type='file'/></devices>")
    assert domain.define(libvirt, WEB, asked) == asked
    monkeypatch.setattr(fake_libvirt.FakeDomain, "XMLDesc", lambda _self, _flags=0: xml(more="<devices/>"))
    with pytest.raises(BuildFailed, match="/memory, /devices/disk"):
        domain.define(libvirt, WEB, asked)


def test_a_guest_is_asked_to_power_off_before_it_is_ended(libvirt):
    guest = libvirt.defineXMLFlags(xml())
    guest.now = fake_libvirt.RUNNING
    assert domain.stop(libvirt, WEB, grace=5) is False
    assert guest.state() == [fake_libvirt.SHUTOFF, fake_libvirt.SHUT_DOWN]


def test_a_guest_that_does_not_power_off_in_time_is_ended(libvirt):
    guest = libvirt.defineXMLFlags(xml())
    guest.now, guest.answers = fake_libvirt.RUNNING, False
    assert domain.stop(libvirt, WEB, grace=0.05) is True
    assert guest.state() == [fake_libvirt.SHUTOFF, fake_libvirt.DESTROYED]


BUTTON, AGENT = (fake_libvirt.CONSTANTS["VIR_DOMAIN_SHUTDOWN_" + way] for way in ("ACPI_POWER_BTN", "GUEST_AGENT"))
NO_ANSWER = fake_libvirt.libvirtError(86, "Guest agent is not responding")


class Guest(fake_libvirt.FakeDomain):
    """One that ignores the power button. ``agent``: what its agent does when it is asked for something."""

    def __init__(self, connection, text):
        super().__init__(connection, text)
        self.answers, self.asked = False, []

    def agent(self, question):
        """Obeys."""
        if question == AGENT:
            self.end(fake_libvirt.SHUT_DOWN)

    def shutdownFlags(self, flags=0):  # noqa: N802 -- libvirt's own name
        self.asked.append(flags)
        return self.agent(flags) if flags == AGENT else super().shutdownFlags(flags)

    def fsFreeze(self):  # noqa: N802
        self.asked.append("freeze")
        self.agent("freeze")
        return 1

    def fsThaw(self):  # noqa: N802
        self.asked.append("thaw")
        self.agent("thaw")

    def end(self, reason):
        self.asked.append("ended" if reason == fake_libvirt.DESTROYED else "off")
        super().end(reason)


@pytest.fixture
def guest(libvirt):
    """A Guest that runs, with an agent that is connected."""
    channel = "<channel><target type='virtio' name='org.qemu.guest_agent.0' state='connected'/></channel>"
    libvirt.domains[WEB] = Guest(libvirt, xml(more="<devices>%s</devices>" % channel))
    libvirt.domains[WEB].now = fake_libvirt.RUNNING
    return libvirt.domains[WEB]


def refuse(_question):
    raise NO_ANSWER


def is_silent(_question):
    time.sleep(2)


def test_a_guest_that_ignores_the_power_button_is_shut_down_by_its_agent(libvirt, guest):
    assert domain.stop(libvirt, WEB, grace=5) is False
    assert guest.state() == [fake_libvirt.SHUTOFF, fake_libvirt.SHUT_DOWN]


def test_a_guest_whose_agent_refuses_is_shut_down_by_the_power_button(libvirt, guest):
    guest.agent, guest.answers = refuse, True
    assert domain.stop(libvirt, WEB, grace=5) is False
    assert guest.asked == [AGENT, BUTTON, "off"]


def test_a_guest_whose_agent_never_answers_is_shut_down_by_the_power_button_in_time(libvirt, guest):
    guest.agent, guest.answers = is_silent, True
    assert domain.stop(libvirt, WEB, grace=0.4) is False
    assert guest.asked == [AGENT, BUTTON, "off"]


def test_an_agent_that_is_not_connected_is_asked_nothing(libvirt, guest):
    guest.xml = guest.xml.replace("'connected'", "'disconnected'")
    assert domain.stop(libvirt, WEB, grace=0.05) is True
    assert guest.asked == [BUTTON, "ended"]


def test_the_button_is_pressed_again_but_the_agent_is_asked_only_once(libvirt, guest, monkeypatch):
    """libvirt waits for an agent's answer a minute long, and takes only a few calls of one client at a time."""
    monkeypatch.setattr(domain, "SHUTDOWN_AGAIN", 0.05)
    guest.agent = refuse
    assert domain.stop(libvirt, WEB, grace=0.3) is True
    assert guest.asked.count(AGENT) == 1 < guest.asked.count(BUTTON)


def test_an_agent_that_appears_while_the_guest_boots_is_asked(libvirt, guest, monkeypatch):
    monkeypatch.setattr(domain, "SHUTDOWN_AGAIN", 0.05)
    there = iter([False, True])
    monkeypatch.setattr(agent, "is_there", lambda _found: next(there))
    assert domain.stop(libvirt, WEB, grace=5) is False
    assert guest.asked == [BUTTON, AGENT, "off", BUTTON]


def test_a_guest_that_is_ended_has_its_file_systems_frozen_just_before(libvirt, guest):
    """What is copied of its disks afterwards is consistent."""
    guest.agent = lambda _question: None
    assert domain.stop(libvirt, WEB, grace=0.05) is True
    assert guest.asked == [AGENT, BUTTON, "freeze", "ended"]


@pytest.mark.parametrize("agent_does", [refuse, is_silent], ids=["refuses", "is silent"])
def test_an_agent_that_does_not_freeze_holds_up_no_end(libvirt, guest, monkeypatch, agent_does):
    monkeypatch.setattr(agent, "ANSWER", 0.1)
    guest.agent = agent_does
    began = time.monotonic()
    assert domain.stop(libvirt, WEB, grace=0.05) is True
    assert guest.asked[-2:] == ["freeze", "ended"]
    assert time.monotonic() - began < 1.5


def test_a_guest_that_cannot_be_ended_is_not_left_frozen(libvirt, guest, monkeypatch):
    """It goes on, and a move of it is given up."""
    guest.agent = lambda _question: None

    def destroy():
        raise fake_libvirt.libvirtError(38, "Failed to terminate process 17 with SIGKILL: Device or resource busy")

    monkeypatch.setattr(guest, "destroy", destroy)
    with pytest.raises(BuildFailed, match="SIGKILL"):
        domain.stop(libvirt, WEB, grace=0)
    assert guest.asked == ["freeze", "thaw"]


def test_what_is_removed_is_not_frozen_first(libvirt, guest):
    assert domain.remove(libvirt, WEB) is True
    assert guest.asked == ["ended"]


def test_a_guest_that_is_off_or_unknown_needs_no_end(libvirt):
    assert domain.stop(libvirt, WEB, grace=5) is False
    libvirt.defineXMLFlags(xml()).now = fake_libvirt.SHUTOFF
    assert domain.stop(libvirt, WEB, grace=5) is False


@pytest.mark.parametrize("now, starts", [(fake_libvirt.SHUTOFF, 1), (fake_libvirt.PAUSED, 0)], ids=["off", "paused"])
def test_a_paused_guest_goes_on_and_one_that_is_off_starts(libvirt, now, starts):
    guest = libvirt.defineXMLFlags(xml())
    guest.now = now
    assert [domain.start(libvirt, WEB), domain.start(libvirt, WEB)] == [True, False]
    assert (guest.now, guest.starts) == (fake_libvirt.RUNNING, starts)


def test_a_guest_that_sleeps_is_woken(libvirt, monkeypatch):
    """libvirt resumes only what is paused."""
    guest = libvirt.defineXMLFlags(xml())
    guest.now = 7  # VIR_DOMAIN_PMSUSPENDED
    monkeypatch.setattr(guest, "resume", lambda: None)
    assert domain.start(libvirt, WEB) is True and guest.now == fake_libvirt.RUNNING


def test_a_guest_that_was_undefined_gets_the_definition_of_its_next_start_with_its_secrets(libvirt, monkeypatch):
    guest, asked = libvirt.defineXMLFlags(xml()), []
    guest.now, guest.persistent = fake_libvirt.RUNNING, False
    monkeypatch.setattr(guest, "XMLDesc", lambda flags: asked.append(flags) or guest.xml)
    domain.keep_definition(libvirt, guest)
    flags = fake_libvirt.CONSTANTS["VIR_DOMAIN_XML_INACTIVE"] | fake_libvirt.CONSTANTS["VIR_DOMAIN_XML_SECURE"]
    assert asked == [flags] and guest.persistent
