# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest that somebody undefined (virsh undefine) while it ran: libvirt forgets it once it is off, berth does not."""

from __future__ import annotations

import pytest
from fake_libvirt import CONSTANTS, FakeDomain, libvirtError
from instance_case import Case

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import virtual_size
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import BuildFailed
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import power, set_aside
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.update_disks import update_disks
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import ledger

WRITTEN = virtual_size.QCOW2_MAGIC + b"what the guest wrote"
ON, OFF = ("active", None, "running", True), ("stopped", None, "shutdown", False)


@pytest.fixture
def web(prepared, wanted):
    case = Case(prepared, wanted("web1"))
    case.make()
    case.root.write_bytes(WRITTEN)
    case.domain.undefineFlags()
    assert case.domain.isActive()
    return case


@pytest.mark.parametrize("answers", [True, False], ids=["it shuts down", "it is ended"])
def test_it_is_stopped_and_started_with_its_disks(web, answers):
    web.domain.answers = answers
    assert web.instance().stopped(0.2) and web.state() == OFF
    assert web.instance().started() and web.state() == ON
    assert web.root.read_bytes() == WRITTEN and web.domain.isPersistent()


def test_it_is_defined_before_it_is_off_since_libvirt_would_remove_the_state_of_its_tpm(web):
    was = web.domain
    web.instance().stopped(0)
    assert web.domain is was and was.isPersistent() and not was.isActive()


def test_one_that_ends_by_itself_in_that_moment_is_off(web):
    web.domain.isPersistent = lambda: web.domain.end(0) or FakeDomain.isPersistent(was)
    was = web.domain
    assert web.instance().stopped(0) and web.state() == OFF


def test_a_libvirt_that_does_not_define_it_ends_no_guest(web):
    def refuse(_xml, _flags=0):
        raise libvirtError(1, "no space left")

    web.host.connection.defineXMLFlags = refuse
    with pytest.raises(BuildFailed):
        web.instance().stopped(0)
    assert web.domain.isActive()


def test_it_gets_a_data_disk_in_the_definition_too(web, monkeypatch):
    given, attach = [], web.domain.attachDeviceFlags
    web.domain.attachDeviceFlags = lambda xml, flags: given.append(flags) or attach(xml, flags)
    monkeypatch.setattr(ledger, "allocate", lambda *_: {"disk_gb": 1, "resources": {}})
    monkeypatch.setattr(virtual_size, "read", lambda *_: (1 << 30, 0, 0))
    disks = [{"name": "data", "size_gb": 1}]
    assert update_disks(web.instance(), disks)
    assert given == [CONSTANTS["VIR_DOMAIN_AFFECT_LIVE"] | CONSTANTS["VIR_DOMAIN_AFFECT_CONFIG"]]
    assert web.domain.isPersistent() and ">data</serial>" in web.domain.xml and not update_disks(web.instance(), disks)


def test_it_is_rebooted_and_defined_again(web):
    power.reboot(web.instance(), False, 1)
    assert web.state() == ON and web.domain.isPersistent()


def test_it_is_deleted_whole(web):
    assert web.instance().absent() and (web.record, web.domain, web.root.exists()) == (None, None, False)


def test_it_is_set_aside_with_its_disks(web):
    set_aside.set_aside(web.instance(), 1)
    assert (web.record, web.domain, web.root.exists()) == (None, None, False)
