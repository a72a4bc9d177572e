# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file system of the state directory is full, or can only be read: from any write on. Each operation ends with an error that says
so, no guest runs that the record does not know of, and when there is room again the same run brings what was asked for."""

from __future__ import annotations

import os

import pytest
from full_disk import ERRORS, FullDisk
from instance_case import Case

from ansible_collections.berth.kvm.plugins.module_utils.compute import durable
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import FileNotUsable
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import power, set_aside, startable
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import state_directory
from ansible_collections.berth.kvm.plugins.module_utils.model import state_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError


def create(web):
    if web.record is None:
        web.claim()
    web.instance().started("t1", web.seed)


def stop(web):
    web.instance().stopped(0)


def delete(web):
    web.instance().absent()


def put_aside(web):
    if web.record is not None:
        set_aside.set_aside(web.instance(), 0)


# what is done -> (what comes before it, the guest runs afterwards)
OPERATIONS = {create: ((), True), stop: ((create,), False), delete: ((create,), False), put_aside: ((create,), False)}


@pytest.mark.follows("make_room")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_full_disk_is_a_typed_error_and_the_same_run_goes_on_when_there_is_room(
    make_host, wanted, monkeypatch, tmp_path, operation
):
    before, runs = OPERATIONS[operation]
    disk, at, done = FullDisk(), 0, False
    monkeypatch.setattr(durable, "os", disk)
    while not done:
        at += 1
        web = Case(make_host("kvm%d" % at), wanted())
        state_directory.establish(web.host.store)
        for earlier in before:
            earlier(web)
        disk.count, disk.at = 0, at
        try:
            operation(web)
            done = disk.count < at
            assert done, "the write failed and nobody said so"
        except BerthError as error:
            said = error.to_dict()
            assert os.strerror(ERRORS[at % 2]) in str(said) and said.get("hint"), said
            if said["code"] == "StateNotWritten":  # where to make room
                assert said["message"].startswith(str(tmp_path)), said
                assert " on %s cannot be written" % os.uname().nodename in said["message"], said
        disk.at = 0
        guest_runs = web.domain is not None and bool(web.domain.isActive())
        assert not guest_runs or web.record.role == "OWN"
        operation(web)
        assert (web.domain is not None and bool(web.domain.isActive())) is runs
    assert at > 5


@pytest.mark.follows("make_room_for_file")
def test_a_guest_whose_disk_can_only_be_read_is_not_ended_for_a_reboot_and_is_once_it_is_writable(web, monkeypatch):
    """QEMU, which has the disk open, goes on, and a new one would not start."""
    web.make()
    with monkeypatch.context() as patched:
        patched.setattr(startable.disk.os, "access", lambda path, _mode: path != str(web.root))
        with pytest.raises(FileNotUsable, match="the start of web1 on kvm1: .*root.qcow2: Read-only") as caught:
            power.reboot(web.instance(), False, 0)
        assert caught.value.hint == state_hints.make_room_for_file("kvm1") and web.domain.starts == 1
    power.reboot(web.instance(), False, 0)
    assert web.domain.isActive() and web.domain.starts == 2
