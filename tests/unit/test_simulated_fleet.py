# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts that `make fleet` simulates reply as the modules do; otherwise it measures a run that refuses them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))

import simulated_fleet  # noqa: E402
import simulated_host  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.model import reply  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid  # noqa: E402

NEW = {
    "uuid": instance_uuid("default", "new000"),
    "name": "new000",
    "project_id": "default",
    "flavor": simulated_fleet.FLAVOR,
}
ASKED = {
    "build_instances": {"builds": [{"uuid": NEW["uuid"], "spec": NEW, "token": "a" * 32}]},
    "claim": {"claims": [{"spec": NEW, "token": "a" * 32}]},
    "instance": {"uuid": NEW["uuid"], "spec": NEW, "token": "a" * 32},
}


@pytest.fixture
def folder(tmp_path):
    """Of a host: its recorded replies are checked as they are made."""
    simulated_fleet.make_host(tmp_path / "kvm00000", "kvm00000", ["web00000-00"], {})
    return tmp_path / "kvm00000"


@pytest.mark.parametrize("module", simulated_host.HANDLERS)
def test_what_a_simulated_host_works_out_passes_the_door(module, folder):
    said = json.loads(json.dumps(simulated_host.HANDLERS[module](folder, ASKED[module])))
    assert reply.check(module, said, "kvm00000", ASKED[module])["changed"]


def test_a_claim_is_in_the_records_that_are_read_next(folder):
    simulated_host.claim(folder, ASKED["claim"])
    scan = json.loads((folder / "rescan.json").read_text())
    assert NEW["uuid"] in [each["uuid"] for each in reply.check("rescan", scan, "kvm00000", {})["instances"]]
