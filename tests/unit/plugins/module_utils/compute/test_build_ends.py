# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a build ends: of a claim, of what an interrupted build left, and of one that fails."""

from __future__ import annotations

import pytest
from instance_case import Killed

from ansible_collections.berth.kvm.plugins.module_utils.compute.connection import LibvirtTimeout
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import BuildFailed, ClaimRevoked, CleanupFailed
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import counters
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import CLAIM


def test_what_ends_before_the_guest_ran_is_built_anew_and_what_ran_keeps_its_disks(web):
    """From phase active on, what is in the disks is the guest's."""
    for step, kept in (("build active", False), ("start permit", True)):
        with pytest.raises(Killed):
            web.make(step)
        web.root.write_bytes(b"what the guest wrote")
        web.instance().made("t1", web.seed)
        assert (web.root.read_bytes() == b"what the guest wrote") is kept
        web.instance().absent()


def test_a_claim_becomes_the_next_owner_of_the_chain(web):
    """Whoever owned the instance before is of an earlier epoch, and so is the claim."""
    web.claim()
    claimed = web.record.generation
    web.instance().started("t1", web.seed)
    assert (claimed, web.record.generation[0], web.record.role) == ([0, 1], 1, "OWN")


def test_a_claim_of_another_run_is_not_built(web):
    web.claim()
    with pytest.raises(ClaimRevoked):
        web.instance().started("t2", web.seed)
    assert (web.record.role, web.domain, web.root.exists()) == (CLAIM, None, False)


def test_without_a_claim_nothing_is_made(web):
    with pytest.raises(ClaimRevoked):
        web.instance().started("t1", web.seed)
    assert (web.record, web.domain, web.root.exists()) == (None, None, False)


def test_a_guest_that_runs_although_its_start_failed_is_not_removed(web, monkeypatch):
    """libvirt's reply may be lost, or an error come after the guest was started."""

    def start(connection, uuid):
        connection.domains[uuid].createWithFlags()
        raise BuildFailed("the monitor broke")

    monkeypatch.setattr(domain, "start", start)
    with pytest.raises(BuildFailed):
        web.make()
    assert (bool(web.domain), web.root.exists()) == (True, True)
    assert (bool(web.domain.isActive()), web.record.phase) == (True, "active")


def test_a_start_of_which_the_end_is_not_known_removes_nothing(web, monkeypatch):
    """The guest may come up a moment later."""

    def start(_connection, _uuid):
        raise LibvirtTimeout("no answer within 120 s")

    monkeypatch.setattr(domain, "start", start)
    with pytest.raises(BerthError) as unknown:
        web.make()
    assert (bool(web.domain), web.root.exists()) == (True, True)
    assert (web.record.phase, unknown.value.code) == ("active", "StateUnknown")


def test_a_build_that_fails_leaves_nothing_and_counts_against_its_host(web, monkeypatch):
    def fail(*_):
        raise BuildFailed("no space")

    monkeypatch.setattr(disk, "make", fail)
    with pytest.raises(BuildFailed):
        web.make()
    assert (web.record, web.domain, web.root.parent.exists()) == (None, None, False)
    assert counters.count_failed_builds(web.host.store.state_dir) == 1


def test_a_build_that_cannot_be_removed_says_so_and_is_ended_by_a_delete(web, monkeypatch):
    with monkeypatch.context() as patched:

        def fail(*_):
            raise BuildFailed("no space")

        patched.setattr(disk, "make", fail)
        patched.setattr(domain, "remove", lambda connection, uuid: fail() if web.record.phase == "deleting" else False)
        with pytest.raises(CleanupFailed, match="no space"):
            web.make()
        assert web.record.phase == "deleting"
    assert web.instance().absent() is True
    assert (web.record, web.root.parent.exists()) == (None, False)
