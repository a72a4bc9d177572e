# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest that somebody undefined (virsh undefine) while it ran: libvirt forgets it once it is off, berth does not."""

from __future__ import annotations

import pytest
from instance_case import Case

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import power, set_aside

ON, OFF = ("active", None, "running", True), ("stopped", None, "shutdown", False)


@pytest.fixture
def web(prepared, wanted):
    case = Case(prepared, wanted("web1"))
    case.make()
    case.root.write_text("what the guest wrote")
    case.domain.undefineFlags()
    assert case.domain.isActive()
    return case


@pytest.mark.parametrize("answers", [True, False], ids=["it shuts down", "it is ended"])
def test_it_is_stopped_and_started_with_its_disks(web, answers):
    web.domain.answers = answers
    assert web.instance().stopped(0.2) and (web.domain, web.state()) == (None, OFF)
    assert web.instance().started() and web.state() == ON
    assert web.root.read_text() == "what the guest wrote" and web.domain.isPersistent()


def test_it_is_rebooted_and_defined_again(web):
    power.reboot(web.instance(), False, 1)
    assert web.state() == ON and web.domain.isPersistent()


def test_it_is_deleted_whole(web):
    assert web.instance().absent() and (web.record, web.domain, web.root.exists()) == (None, None, False)


def test_it_is_set_aside_with_its_disks(web):
    set_aside.set_aside(web.instance(), 1)
    assert (web.record, web.domain, web.root.exists()) == (None, None, False)
