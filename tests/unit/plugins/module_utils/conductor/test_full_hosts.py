# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file system of a host's state directory is full or read-only, from any of its writes on, while create runs."""

from __future__ import annotations

import errno
import itertools
import os

import pytest
from fleet_case import Fleet
from runs_of_create import HOSTS, Host, a_plan, instance, steps

from ansible_collections.berth.kvm.plugins.module_utils.compute import durable


class Full:
    """durable's write and remove, which fail for one host from its write number ``at`` on; 0 is never."""

    def __init__(self, monkeypatch, number):
        self.host, self.at, self.count, self.number = None, 0, 0, number
        for name in ("_write", "_unlink"):
            monkeypatch.setattr(durable, name, self._wrapped(getattr(durable, name)))

    def _wrapped(self, real):
        def call(directory_fd, *arguments):
            if self.host and os.readlink("/proc/self/fd/%d" % directory_fd).startswith(self.host.store.state_dir):
                self.count += 1
                if self.at and self.count >= self.at:
                    raise OSError(self.number, os.strerror(self.number))
            return real(directory_fd, *arguments)

        return call


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS], ids=["full", "read-only"])
@pytest.mark.parametrize("which", ["h1", "h3"])
def test_what_a_full_host_cannot_write_never_makes_two_guests_and_the_next_run_makes_one(
    tmp_path, monkeypatch, number, which
):
    disk, at, landed = Full(monkeypatch, number), 0, set()
    while True:
        at += 1
        fleet = Fleet(tmp_path / str(at))
        disk.host, disk.count, disk.at = fleet.hosts[which], 0, at
        error = fleet.run()
        if disk.count < at:
            break
        landed.update([(error, *fleet.owners())])
        disk.at = 0
        assert fleet.run() is None
        assert len(fleet.owners()) == 1
        records = {name: host.record() for name, host in fleet.hosts.items()}
        assert [record.role for record in records.values() if record] == ["OWN"], records
    assert at > 3
    # it was passed over, for a host that has room, whenever it had not begun to build
    assert (None, "h2" if which == "h1" else "h1") in landed, landed


def created(plan, hosts):
    """What becomes of the only instance of a plan."""
    for _step in steps(plan, hosts, ("t%d" % number for number in itertools.count())):
        pass
    return next(iter(plan["instances"].values()))


def test_host_that_answers_the_claim_with_an_error_is_followed_by_another_and_called_what_it_said():
    hosts = {name: Host(name) for name in HOSTS}
    error = {"code": "StateNotWritten", "message": "host.lock on h1 cannot be written", "hint": "Make room"}
    hosts["h1"].claim = lambda *_: {"error": error}
    result = created(a_plan(instance("a")), hosts)
    attempt = {"attempt": 1, "host": "h1", "code": "StateNotWritten"}
    assert (result["state"], result["host"]) == ("active", "h2")
    assert result["attempts"] == [{**attempt, "cause": "host.lock on h1 cannot be written. Make room"}]


def test_host_that_is_left_out_after_the_claims_is_told_with_what_to_do():
    hosts = {name: Host(name) for name in HOSTS}
    error = {"code": "StateNotWritten", "message": "whereabouts.json on h3 cannot be written", "hint": "Make room"}
    hosts["h3"].rescan = lambda *_: {"error": error}
    plan = a_plan(instance("a"))
    assert created(plan, hosts)["state"] == "active"
    assert plan["hosts"]["h3"] == {"reason": "StateNotWritten: whereabouts.json on h3 cannot be written. Make room"}
