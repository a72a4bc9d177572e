# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about builds on a host: what each says is done there, and the instance is made, or gone."""

from __future__ import annotations

import errno
import os
import re

import pytest
from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.compute import durable
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk, image
from ansible_collections.berth.kvm.plugins.module_utils.compute.durable import StateNotWritten
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import (
    CleanupFailed,
    DeletionFinished,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.instance import Instance
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import failed_instances
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, hints, state_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import InstanceInvalidState


def broken(*_args, **_kwargs):
    raise OSError("Input/output error")


@pytest.mark.follows("again_when_well", "create_if_wanted")
def test_what_could_not_be_cleaned_up_is_removed_first_when_the_host_is_well(web):
    with pytest.MonkeyPatch.context() as sick:
        sick.setattr(image, "ensure", broken)
        sick.setattr(disk, "remove_all", broken)
        with pytest.raises(CleanupFailed) as refused:
            web.make()
        assert refused.value.hint == hints.again_when_well() and web.record.phase == "deleting"
    with pytest.raises(DeletionFinished) as finished:
        web.instance().started("t1", web.seed)
    assert finished.value.hint == hints.create_if_wanted("web1")
    assert (web.record, web.domain, web.root.exists()) == (None, None, False)
    assert web.make() is True and web.state() == ("active", None, "running", True)


@pytest.mark.follows("make_room")
@pytest.mark.parametrize("left_off", [False, True])
def test_nothing_is_made_where_no_permit_can_be_written_and_the_next_run_makes_the_guest(web, monkeypatch, left_off):
    """With a /run/berth that can only be read, the guest could not start, and what was made could not be removed."""

    def read_only(real):
        def call(directory_fd, *rest):
            if os.readlink("/proc/self/fd/%d" % directory_fd).startswith(web.host.run_dir):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS))
            return real(directory_fd, *rest)

        return call

    web.claim()
    with monkeypatch.context() as broken_run:
        for name in ("_write", "_unlink"):
            broken_run.setattr(durable, name, read_only(getattr(durable, name)))
        with pytest.raises(StateNotWritten) as refused:
            web.instance().made("t1", web.seed, left_off=left_off)
    assert refused.value.retryable and refused.value.hint == state_hints.make_room(os.uname().nodename)
    assert (web.record, web.domain, web.root.exists()) == (None, None, False)
    web.claim()
    assert web.instance().made("t1", web.seed, left_off=left_off)
    assert web.domain and bool(web.domain.isActive()) is not left_off


@pytest.mark.follows("create_or_delete")
@pytest.mark.parametrize("follow", ["create", "delete"])
def test_an_instance_whose_builds_failed_is_made_by_a_create_and_forgotten_by_a_delete(web, follow):
    error = {"code": "BuildFailed", "message": "no space"}
    failed_instances.note(
        web.host.store,
        [{"uuid": web.uuid, "name": "web1", "project_id": "default", "host": "kvm1", "error": error}],
    )
    with pytest.raises(InstanceInvalidState) as refused:
        web.instance().started()
    assert refused.value.hint == hints.create_or_delete("web1")
    if follow == "create":
        assert web.make() is True and web.state() == ("active", None, "running", True)
    else:
        web.instance().absent()
        assert web.uuid not in failed_instances.read(web.host.store.state_dir)
        assert (web.record, web.domain) == (None, None)


@pytest.mark.follows("forget_unlisted_build")
def test_a_failed_build_that_no_inventory_has_is_forgotten_by_the_name_and_project_that_its_host_reports(web):
    """No playbook takes a uuid: a delete forgets the build by its project and name."""
    error = {"code": "BuildFailed", "message": "no space"}
    failure = {"uuid": instance_uuid("acme", "db7"), "name": "db7", "project_id": "acme", "host": "kvm1"}
    failed_instances.note(web.host.store, [{**failure, "error": error}])
    (told,) = failed_instances.reported(web.host.store.state_dir)
    hint = fleet_hints.forget_unlisted_build("kvm1", told["name"], told["uuid"], told["project_id"])
    named = dict(re.findall(r"-e (\w+)=(\S+)", hint))
    Instance(web.host, instance_uuid(named["berth_project"], named["berth_name"])).absent()
    assert failed_instances.read(web.host.store.state_dir) == {}


@pytest.mark.parametrize(
    "role, phase, hint",
    [
        ("OWN", "frozen", hints.finish_move),
        ("IN", "incoming", hints.finish_move),
        ("OUT", "keep", hints.confirm_or_revert),
        ("OWN", "resized", hints.confirm_or_revert),
    ],
)
def test_a_start_gives_up_no_move_that_only_a_person_can_choose_to_take_back(web, role, phase, hint):
    web.make()
    plant(web.host.store, web.record.next(role=role, phase=phase, op="op"))
    for call in (web.instance().started, lambda: web.instance().stopped(1)):
        with pytest.raises(InstanceInvalidState) as refused:
            call()
        assert refused.value.hint == hint("web1")
