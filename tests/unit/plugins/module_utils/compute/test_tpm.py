# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A TPM: only where swtpm is, read back from libvirt, and never lost by a move or by what a hint says."""

from __future__ import annotations

import copy
from pathlib import Path
from xml.etree import ElementTree

import pytest
from instance_case import Case

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk_chain
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import dropped_parts
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import capabilities, traits
from ansible_collections.berth.kvm.plugins.module_utils.model import migration, state_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import OperationNotSupportedForVTPM

SAMPLE = (Path(__file__).parent / "data" / "domain_capabilities.xml").read_text()
# What libvirt 9 says where swtpm is installed.
WITH_SWTPM = SAMPLE.replace(
    "<value>passthrough</value>\n      </enum>",
    "<value>passthrough</value><value>emulator</value></enum>"
    '<enum name="backendVersion"><value>1.2</value><value>2.0</value></enum>',
)
TPM = {"extra_specs": {"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}}


@pytest.mark.parametrize("text, told", [(SAMPLE, False), (WITH_SWTPM, True)], ids=["without swtpm", "with swtpm"])
def test_a_host_has_a_tpm_for_guests_where_swtpm_is(text, told):
    found = traits.device_traits(capabilities.parse_domain(text).enums)
    assert ("COMPUTE_SECURITY_TPM_2_0" in found) is told
    assert {"COMPUTE_SECURITY_TPM_CRB", "COMPUTE_SECURITY_TPM_TIS"} <= set(found)


def test_a_tpm_that_libvirt_drops_is_missed(prepared, wanted):
    case = Case(prepared, wanted(**TPM))
    case.make()
    text = case.domain.XMLDesc(0)
    there = ElementTree.fromstring(text)
    assert there.find("devices/tpm").get("model") == "tpm-crb"
    dropped = copy.deepcopy(there)
    dropped.find("devices").remove(dropped.find("devices/tpm"))
    assert dropped_parts.missing(there, dropped) == ["/devices/tpm"]


@pytest.mark.parametrize("kind", ["resize", "migration", "live-migration"])
def test_an_instance_with_a_tpm_is_not_moved(prepared, wanted, kind):
    case = Case(prepared, wanted(**TPM))
    case.make()
    with pytest.raises(OperationNotSupportedForVTPM) as refused:
        migration.check_begin(case.record, kind, case.spec, "running")
    assert not refused.value.retryable and "web1 has a TPM" in str(refused.value)


def test_a_hint_that_undefines_a_guest_keeps_its_tpm(prepared, wanted):
    lost = disk_chain.Difference(disk_chain.OVERLAY, "text", state_hints.UNDEFINE % "uuid")
    assert "--keep-tpm" in disk_chain._keeping_tpm(lost).command
    assert disk_chain._keeping_tpm(disk_chain.Difference("x", "text", None)).command is None
