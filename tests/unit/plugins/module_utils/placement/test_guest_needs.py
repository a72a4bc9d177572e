# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that lacks what the hardware of an existing guest depends on is left out by name, with the reason."""

from __future__ import annotations

import pytest
from scheduler_case import FLAVOR, chosen, host, request

from ansible_collections.berth.kvm.plugins.module_utils.model.guest_settings import GuestNeeds, fit
from ansible_collections.berth.kvm.plugins.module_utils.model.host_state import HostState
from ansible_collections.berth.kvm.plugins.module_utils.model.request_spec import RequestSpec
from ansible_collections.berth.kvm.plugins.module_utils.placement import capacity, explain
from ansible_collections.berth.kvm.plugins.module_utils.placement.errors import ClaimFailed
from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations

MACHINE, FOUR, TWO = "pc-q35-9.0", "raw-540672-authenticated", "raw-131072-authenticated"
TYPES = ["pc", "q35", "pc-q35-7.2", MACHINE]


def guest(variables=FOUR, **more):
    return request(hardware={"wished": None, "machine": MACHINE, "devices": {}, "variables": variables}, **more)


def offers(name, variables=FOUR, machine_types=tuple(TYPES), secure_boot=False):
    one = {"machines": ["pc-q35-*"], "secure_boot": secure_boot, "variables": variables}
    return host(name, machine_types=list(machine_types), firmware=[one])


LACK = {
    "an older QEMU": (offers("kvm2", machine_types=TYPES[:3]), "has no machine type pc-q35-9.0"),
    "the small build": (offers("kvm2", TWO), "has variables of the form %s, the guest has %s" % (TWO, FOUR)),
    "qcow2": (offers("kvm2", "qcow2-540672"), "has variables of the form qcow2-540672"),
    "only with signatures": (offers("kvm2", secure_boot=True), "has no UEFI firmware for pc-q35-9.0"),
}


@pytest.mark.parametrize("lacks, why", LACK.values(), ids=LACK)
def test_a_host_that_lacks_it_is_left_out_by_name_with_the_reason(lacks, why):
    result = select_destinations([lacks], [guest()], explain=True)
    assert chosen(result) == [[]]
    told = [line for line in explain.decision_text(explain.document(result.requests[0])).splitlines() if why in line]
    assert told and "kvm2" in told[0]
    assert chosen(select_destinations([lacks, offers("kvm3")], [guest()])) == [["kvm3"]]


@pytest.mark.parametrize("lacks, why", LACK.values(), ids=LACK)
def test_the_host_refuses_the_claim_too(lacks, why):
    with pytest.raises(ClaimFailed, match=why):
        capacity.allocate(HostState.from_document(lacks), RequestSpec.from_dict(guest()))


def test_one_decision_judges_guests_of_the_same_flavor_by_their_own_hardware():
    hosts = [offers("kvm2", TWO), offers("kvm3", FOUR)]
    requests = [guest(FOUR, uuid="v1"), guest(TWO, uuid="v2"), guest(FOUR, uuid="v3")]
    assert chosen(select_destinations(hosts, requests)) == [["kvm3"], ["kvm2"], ["kvm3"]]


def test_what_is_not_known_decides_nothing():
    assert chosen(select_destinations([host("kvm2")], [guest()])) == [["kvm2"]]
    assert chosen(select_destinations([offers("kvm2", TWO)], [request()])) == [["kvm2"]]


def test_hardware_of_another_wish_is_not_that_of_the_guest():
    spec = {"flavor": FLAVOR, "image": {"properties": {"hw_machine_type": "pc"}}, **{"hardware": {"wished": "q35"}}}
    assert GuestNeeds.of(spec) == (None, None, False)


@pytest.mark.parametrize(
    "variables, others, fits",
    [
        (FOUR, FOUR, True),
        (FOUR, TWO, False),
        (FOUR, "raw-540672-plain", False),
        (FOUR, "raw-540672-blank", True),
        ("raw-540672-blank", FOUR, True),
        ("raw-131072-blank", FOUR, False),
        ("qcow2-540672", FOUR, False),
        ("qcow2-540672", "qcow2-540672", True),
    ],
)
def test_variables_fit_a_firmware_of_the_same_size_format_and_store(variables, others, fits):
    assert fit(variables, others) is fits
