# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guest in libvirt: what is defined over, ended and removed, and what is never touched."""

from __future__ import annotations

import fake_libvirt
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import BuildFailed
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain, gate
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
