# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the doctor says of the registry and its members."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import errors
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import doctor
from ansible_collections.berth.kvm.plugins.module_utils.model import registry_hints, registry_member_hints

NOW = 1_800_000_000.0
GIB = 1 << 30
GOOD = {"has_leader": True, "version": "3.4.23", "used": GIB, "quota": 4 * GIB, "ends": NOW + 400 * doctor.DAY}
META = {"schema": 1, "incarnation": "one", "kind": "etcd", "open": True}


def found(*members, **more):
    """Three members, those given and good ones -> [(severity, code, where)]."""
    each = [*members, *(doctor.MemberSeen("kvm%d" % number, **GOOD) for number in (1, 2, 3))][:3]
    seen = doctor.RegistrySeen(**{"members": each, "meta": META, **more})
    return {finding.code: finding for finding in doctor.findings(seen, NOW)}


def member(name="kvm9", **change):
    return doctor.MemberSeen(name, **{**GOOD, **change})


def test_nothing_is_found_at_a_good_registry():
    assert found() == {}


@pytest.mark.parametrize(
    "members, more, code, severity, where, todo",
    [
        ([member(silent="refused")], {}, "RegistryMemberSilent", "warning", "kvm9", "start_members"),
        ([member(has_leader=False)], {}, "RegistryMemberAlone", "warning", "kvm9", "start_members"),
        ([], {"refused": errors.RegistryUnknown("no majority")}, "RegistryUnknown", "error", "", "start_members"),
        ([], {"alarms": ["NOSPACE"]}, "RegistryFull", "error", "", "give_more_space"),
        ([member(used=4 * GIB - 1)], {}, "RegistryNearlyFull", "warning", "kvm9", "give_more_space"),
        ([member(version="3.5.16")], {}, "RegistryVersionsDiffer", "note", "", "upgrade_members"),
        ([member(ends=NOW + 29 * doctor.DAY)], {}, "RegistryCertificateEnds", "warning", "kvm9", "renew_members"),
    ],
)
def test_each_state_is_one_finding_that_says_what_to_do(members, more, code, severity, where, todo):
    all_found = found(*members, **more)
    assert list(all_found) == [code]
    assert (all_found[code].severity, all_found[code].where) == (severity, where)
    assert all_found[code].todo == getattr(registry_member_hints, todo)()


@pytest.mark.parametrize(
    "refused", [errors.RegistryRefused("permission denied"), errors.RegistryAuthorityMissing("none")]
)
def test_a_registry_that_does_not_know_the_controller_is_told_with_where_to_run(refused):
    assert found(refused=refused)["RegistryUnknown"].todo == registry_hints.find_registry_authority()


def test_a_registry_that_was_restored_is_told_until_all_hosts_were_compared():
    closed = found(meta={**META, "open": False})["RegistryClosed"]
    assert (closed.severity, closed.todo) == ("error", registry_hints.compare_all_hosts())
    assert found(meta=None)["RegistryEmpty"].todo == registry_hints.fill_registry()


def test_a_member_that_is_silent_tells_nothing_else_about_itself():
    assert list(found(doctor.MemberSeen("kvm1", "refused"))) == ["RegistryMemberSilent"]
