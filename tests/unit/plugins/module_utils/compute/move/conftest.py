# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleets of two hosts with an instance and its volume, see volume_move_case.py, and a run that is killed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[5] / "protocol"))

import memory_names as memory  # noqa: E402
import move_side  # noqa: E402
from instance_case import Case, Killed  # noqa: E402
from memory_names import D, S  # noqa: E402
from volume_move_case import HOSTS, OPS, UUIDS, Effects, Fleet  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.compute import durable  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import moving_host  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import claim  # noqa: E402


@pytest.fixture
def source(tmp_path):
    return move_side.Side(tmp_path, move_side.S)


@pytest.fixture
def destination(tmp_path):
    return move_side.Side(tmp_path, move_side.D)


@pytest.fixture
def fleet(make_fleet):
    return make_fleet()


@pytest.fixture
def make_fleet(make_host, wanted, monkeypatch, tmp_path):
    """make_fleet(**more): the instance runs on S with volume db, of which the request says ``more``; D has the same pool."""
    permitted = set()
    monkeypatch.setattr(moving_host.gate, "permit", lambda uuid, *_: permitted.add(uuid))
    monkeypatch.setattr(moving_host.gate, "permit_arrival", lambda uuid, *_: permitted.add(uuid))
    monkeypatch.setattr(moving_host.gate, "revoke", lambda uuid, *_: permitted.discard(uuid))
    monkeypatch.setattr(moving_host.gate, "is_permitted", lambda uuid, *_: uuid in permitted)
    monkeypatch.setattr(moving_host.disks, "swap_in", lambda *_: None)
    monkeypatch.setattr(moving_host.disks, "restore", lambda *_: None)
    monkeypatch.setattr(moving_host.disks, "manifest", lambda *_args, **_more: [])
    monkeypatch.setattr(moving_host.health, "check_answers", lambda *_: None)
    monkeypatch.setattr(moving_host.block_jobs, "check_no_others_jobs", lambda *_: None)
    monkeypatch.setattr(moving_host.precopy, "tidy", lambda *_: None)
    monkeypatch.setattr(moving_host.disk_chain, "differences", lambda *_: [])
    monkeypatch.setattr(moving_host.network, "check", lambda *_: None)
    monkeypatch.setattr(moving_host.arrival, "check", lambda *_: None)
    monkeypatch.setattr(moving_host.transfer, "close", lambda *_: None)
    monkeypatch.setattr(moving_host.paths, "remove_console_logs", lambda *_: None)
    monkeypatch.setattr(claim.Ledger, "__init__", lambda *_: None)
    monkeypatch.setattr(
        claim.Ledger, "allocate", lambda *_: {"vcpus": 1, "memory_mb": 64, "disk_gb": 3, "resources": {}}
    )
    monkeypatch.setattr(claim.Ledger, "take", lambda *_: None)

    def make(**more):
        number = next(OPS)
        pool = tmp_path / ("pool%d" % number)
        made = {name: make_host("%s-%d" % (HOSTS[name], number), UUIDS[name], pool) for name in (S, D)}
        spec, seed = wanted(memory.NAME)
        entry = {"name": "db", "size_gb": 2, "delete_on_termination": False, "slot": 0, "new": True, **more}
        spec.update(pool="berth", volumes=[entry])
        assert claim.claim_all(made[S], [{"spec": spec, "token": "t1"}])[0]["error"] is None
        guest = Case(made[S], (spec, seed))
        guest.instance().made("t1", seed)
        hosts = {name: moving_host.MovingHost(host) for name, host in made.items()}
        for name, host in hosts.items():
            host.identity["name"], host.effects = name, Effects(host)
        return Fleet(hosts, guest.record.spec)

    return make


@pytest.fixture
def kill_before(monkeypatch):
    """kill_before(number, run): whether the run was killed before its durable write of that number."""
    left = [None]

    def counted(function):
        def called(*arguments, **options):
            if left[0] is not None:
                left[0] -= 1
                if left[0] < 0:
                    left[0] = None
                    raise Killed()
            return function(*arguments, **options)

        return called

    for name in ("write", "remove"):
        monkeypatch.setattr(durable, name, counted(getattr(durable, name)))

    def run(number, action):
        left[0] = number
        try:
            action()
        except Killed:
            return True
        finally:
            left[0] = None
        return False

    return run
