# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""After the claim of a move: what all hosts hold now decides whether it stands (I7)."""

from __future__ import annotations

from controller import Controller

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
MOVE = {
    "uuid": UUID, "name": "a", "kind": "resize", "sequence": "resize",
    "spec": {"uuid": UUID, "name": "a", "project_id": "p", "flavor": {"vcpus": 2, "memory_mb": 256}, "group": None},
    "views": {
        "source": {"role": "OWN", "spec": {"flavor": {"vcpus": 1, "memory_mb": 128}}}, "destination": {"role": None},
    },
}  # fmt: skip


def record(uuid, role, vcpus):
    return {
        "uuid": uuid, "role": role, "project_id": "p", "group": None, "vcpus": vcpus, "pcpus": 0, "memory_mb": 128,
    }  # fmt: skip


def commit(*others):
    it = Controller(
        {"kvm_hosts": ["h1", "h2"], "instances": ["a"]},
        {"all": {"berth_quotas": {"p": {"cores": 3}}}},
    )
    answers = {
        "h1": {"instances": [record(UUID, "OWN", 1), *others]},
        "h2": {"instances": [record(UUID, "IN", 2)]},
    }
    return it.run("commit_move", {"move": MOVE, "host": "h2", "scans": answers})


def test_a_claim_within_the_quota_stands():
    assert commit() == {"changed": False}


def test_a_claim_over_the_quota_fails_the_task_with_its_code():
    result = commit(record("other", "CLAIM", 1))
    assert (result["failed"], result["error_code"]) == (True, "QuotaExceeded")
