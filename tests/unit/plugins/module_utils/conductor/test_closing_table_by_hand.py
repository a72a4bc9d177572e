# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the table tells of a guest that somebody changed in libvirt, or whose memory somebody saved to a file."""

from __future__ import annotations

import pytest
from closing_table_case import located

from ansible_collections.berth.kvm.plugins.module_utils.conductor import (
    outcome_of_create,
    outcome_of_operation,
    show_instance,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.operate import Done
from ansible_collections.berth.kvm.plugins.module_utils.model import disk_hints, hints


def test_what_somebody_changed_in_libvirt_is_told_until_it_is_mended():
    instance = {
        "name": "web1", "state": "active", "host": "kvm1", "attempts": [], "error": None, "existing": True, "why": "is there",
        "spec": {"flavor": {"name": "small"}},
        "result": {"flavor": "small", "state": "running", "domain_differs": {"next_start": [["vcpus", "1", "2"]]}},
    }  # fmt: skip
    (said,) = outcome_of_create.outcomes({"instances": {"web1": instance}})
    assert said.why.startswith("live domain differs: vcpus 2 (record: 1); repaired at the next start or with")
    instance["result"].update(domain_differs={}, mended="mended: vcpus 2 -> 1")
    (said,) = outcome_of_create.outcomes({"instances": {"web1": {**instance, "changed": True}}})
    assert (said.state, said.why) == ("active", "mended: vcpus 2 -> 1")


@pytest.mark.parametrize("changed", [False, True])
def test_a_start_that_changed_nothing_tells_what_somebody_changed_in_libvirt(changed):
    done = Done(changed=changed)
    said = outcome_of_operation.outcome(
        "start", "web1", located(by_hand={"web1": ["live domain differs"]}), done, False
    )
    assert said.why == ("" if changed else "runs already; live domain differs")


IN_FILE = "off: its memory was saved to a file with virsh save. " + disk_hints.restore_or_boot("web1")


def test_of_a_guest_whose_memory_is_in_a_file_each_table_says_so_and_what_helps():
    instance = {
        "name": "web1", "state": "active", "host": "kvm1", "attempts": [], "error": None, "existing": True, "why": "is there",
        "spec": {"flavor": {"name": "small"}}, "result": {"flavor": "small", "state": "saved", "power_state": "running"},
    }  # fmt: skip
    (created,) = outcome_of_create.outcomes({"instances": {"web1": instance}})
    done = Done(instance={"state": "saved"})
    recovered = outcome_of_operation.outcome("recover", "web1", located(), done, False)
    held = {"role": "OWN", "phase": "active", "vm_state": "active", "state": "saved"}
    shown = show_instance.outcome("web1", [("kvm1", held)])
    assert [said.why for said in (created, recovered, shown)] == [IN_FILE] * 3


@pytest.mark.parametrize("changed", [True, False])
def test_who_stops_a_guest_whose_memory_is_in_a_file_is_told_what_that_means(changed):
    done = Done(changed=changed, instance={"state": "saved"})
    said = outcome_of_operation.outcome("stop", "web1", located(), done, False)
    assert said.why.endswith(outcome_of_operation.STOPPED_SAVED) and said.why.startswith(
        "" if changed else "is off already; "
    )


BY_HAND = {"next_start": [["vcpus", "1", "2"]]}


@pytest.mark.parametrize("check, state", [(False, "repaired"), (True, "would be repaired")])
def test_a_start_that_only_repaired_the_packets_of_a_running_guest_is_not_told_as_a_start(check, state):
    text = "repaired: network interface 02:00:00:00:00:01 no rules -> as its record says"
    done = Done(True, {"state": "running", "mended": text, "domain_differs": {}})
    said = outcome_of_operation.outcome("start", "web1", located(), done, check)
    assert (said.state, said.why) == (state, text)


STILL = "live domain differs: vcpus 2 (record: 1); repaired at the next start or with " + hints.mend("web1")


@pytest.mark.parametrize("operation", ["stop", "update_disks", "start", "reboot", "recover"])
@pytest.mark.parametrize("differs", [BY_HAND, {}])
def test_after_an_operation_it_is_told_how_the_guest_differs_then(operation, differs):
    done = Done(changed=True, instance={"domain_differs": differs})
    before = located(by_hand={"web1": ["as it was"]})
    assert outcome_of_operation.outcome(operation, "web1", before, done, False).why == (STILL if differs else "")


@pytest.mark.parametrize("operation, told", [("stop", "as it was"), ("update_disks", ""), ("start", "")])
def test_check_mode_tells_what_a_stop_would_leave(operation, told):
    done = Done(changed=True, instance={"state": "running"})
    before = located(by_hand={"web1": ["as it was"]})
    assert outcome_of_operation.outcome(operation, "web1", before, done, True).why == told


@pytest.mark.parametrize("operation", ["lock", "unlock", "keep_one"])
def test_what_touches_no_guest_tells_also_after_a_change_what_somebody_changed_in_libvirt(operation):
    done = Done(changed=True)
    said = outcome_of_operation.outcome(
        operation, "web1", located(by_hand={"web1": ["live domain differs"]}), done, False
    )
    assert said.why == "live domain differs"
