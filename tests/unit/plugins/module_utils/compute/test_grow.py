# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running guest gets CPUs and memory, and lets go of those that it got, or it is said that it does not."""

from __future__ import annotations

from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from libvirt_names import CONSTANTS, libvirtError

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import grow, live_differences

MIB = 1024
LIVE = CONSTANTS["VIR_DOMAIN_AFFECT_LIVE"]


class Guest:
    """Started with 1 CPU and 256 MiB, and places for 4 CPUs. ``keeps``: what it does not let go of."""

    def __init__(self):
        self.cpus, self.places, self.dimms, self.keeps, self.full, self.slow = 1, 4, [], (), False, 0
        self.done, self.kind = [], "kvm"

    def isActive(self):  # noqa: N802
        return True

    def isPersistent(self):  # noqa: N802
        return True

    def XMLDesc(self, flags=0):  # noqa: N802
        if flags & CONSTANTS["VIR_DOMAIN_XML_INACTIVE"]:
            return "<domain><vcpu>1</vcpu><memory>1</memory><devices/></domain>"
        cpus = "".join(
            "<vcpu id='%d' enabled='%s' hotpluggable='%s'/>"
            % (at, "yes" if at < self.cpus else "no", "yes" if at else "no")
            for at in range(self.places)
        )
        dimms = "".join(
            "<memory model='dimm'><target><size unit='KiB'>%d</size></target><alias name='%s'/></memory>" % (size, name)
            for name, size in self.dimms
        )
        memory = 256 * MIB + sum(size for _name, size in self.dimms)
        return "<domain type='%s'><memory>%d</memory><vcpu current='%d'>%d</vcpu><vcpus>%s</vcpus><devices>%s</devices></domain>" % (
            self.kind, memory, self.cpus, self.places, cpus, dimms,
        )  # fmt: skip

    def setVcpusFlags(self, count, flags):  # noqa: N802
        assert flags == LIVE
        self.done.append("cpus")
        if count > self.places:
            raise libvirtError(8, "requested vcpus is greater than max allowable vcpus")
        if count < self.cpus and "cpus" in self.keeps:
            raise libvirtError(9, "vcpu unplug request timed out")
        if count < self.cpus and self.slow:
            self.slow -= 1
            raise libvirtError(9, "vcpu unplug request timed out")
        self.cpus = count

    def attachDeviceFlags(self, xml, flags):  # noqa: N802
        assert flags == LIVE
        self.done.append("memory")
        if self.full:
            raise libvirtError(1, "no free memory device slot available")
        size = int(ElementTree.fromstring(xml).findtext("target/size"))
        self.dimms.append(("dimm%d" % len(self.dimms), size))

    def detachDeviceFlags(self, xml, flags):  # noqa: N802
        assert flags == LIVE
        name = ElementTree.fromstring(xml).find("alias").get("name")
        if "memory" in self.keeps:
            raise libvirtError(9, "unplug of device was rejected by the guest")
        self.dimms = [each for each in self.dimms if each[0] != name]


@pytest.fixture
def guest(prepared, monkeypatch):
    monkeypatch.setattr(grow, "LETS_GO", 0.2)
    monkeypatch.setattr(grow, "POLL", 0.01)
    return Guest()


def of(vcpus, memory_mb):
    return SimpleNamespace(name="web1", spec={"flavor": {"vcpus": vcpus, "memory_mb": memory_mb}})


def has(guest):
    found = live_differences.parts(
        ElementTree.fromstring(guest.XMLDesc().replace("<devices>", "<os><type/></os><devices>"))
    )
    return int(found["vcpus"]), int(found["memory_mb"])


def test_it_gets_the_memory_first_and_then_the_cpus(guest):
    grow.grow(guest, of(3, 512))
    assert (has(guest), guest.done) == ((3, 512), ["memory", "cpus"])


def test_what_a_killed_run_has_plugged_in_is_not_plugged_in_again(guest):
    grow.grow(guest, of(1, 512))
    grow.grow(guest, of(2, 512))
    grow.grow(guest, of(2, 512))
    assert (guest.dimms, guest.done) == ([("dimm0", 256 * MIB)], ["memory", "cpus"])


def test_a_guest_that_takes_no_memory_gets_no_cpus_either_and_it_is_said_what_to_do(guest):
    guest.full = True
    with pytest.raises(
        grow.GuestNotGrown, match="web1 cannot get 3 vCPUs and 512 MiB.*no free memory device slot"
    ) as no:
        grow.grow(guest, of(3, 512))
    assert (has(guest), guest.done) == ((1, 256), ["memory"])
    assert no.value.hint.startswith("To resize it while it is off: berth.kvm.stop --limit web1")


def test_a_guest_that_was_started_without_places_for_more_cpus_is_refused(guest):
    guest.places = 1
    with pytest.raises(grow.GuestNotGrown, match="greater than max"):
        grow.grow(guest, of(2, 256))


def test_it_lets_go_of_all_that_it_got(guest):
    grow.grow(guest, of(3, 768))
    assert grow.shrink(guest, of(1, 256)) and has(guest) == (1, 256)


def test_of_memory_that_it_got_twice_it_lets_go_of_the_latest(guest):
    grow.grow(guest, of(2, 512))
    grow.grow(guest, of(3, 1024))
    assert grow.shrink(guest, of(2, 512)) and has(guest) == (2, 512)
    assert guest.dimms == [("dimm0", 256 * MIB)]


def test_a_guest_is_asked_again_for_its_cpus_until_its_time_is_over(guest):
    grow.grow(guest, of(3, 256))
    guest.slow = 2
    assert grow.shrink(guest, of(1, 256)) and has(guest) == (1, 256)


@pytest.mark.parametrize("what", ["cpus", "memory"])
def test_it_is_said_if_it_does_not_let_go(guest, what):
    grow.grow(guest, of(3, 512))
    guest.keeps = (what,)
    assert not grow.shrink(guest, of(1, 256))


def test_memory_that_a_guest_was_started_with_is_not_asked_for(guest):
    assert not grow.shrink(guest, of(1, 128)) and has(guest) == (1, 256)


def test_cpus_that_a_guest_was_started_with_are_asked_for_once(guest, monkeypatch):
    monkeypatch.setattr(grow, "LETS_GO", 60)
    guest.keeps, guest.cpus = ("cpus",), 1
    assert not grow.shrink(guest, of(0, 256)) and guest.done == ["cpus"]


def test_an_emulated_guest_is_not_asked_for_cpus_and_lets_go_of_memory(guest):
    guest.kind = "qemu"
    grow.grow(guest, of(1, 512))
    assert grow.shrink(guest, of(1, 256)) and has(guest) == (1, 256)
    grow.grow(guest, of(2, 256))
    assert not grow.shrink(guest, of(1, 256)) and guest.done.count("cpus") == 1
