# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two workers, each a process of its own, read the simulated hosts of their cells into one registry at the same time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from registry_fixture import IS_HERE, over_tls  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
import simulated_fleet  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Scan  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import keys  # noqa: E402

pytestmark = pytest.mark.skipif(not IS_HERE or not shutil.which("gcc"), reason="it needs etcd and gcc")
HOSTS = 12  # of both cells
META = {"schema": keys.SCHEMA, "kind": "etcd", "incarnation": "one", "open": True}


@pytest.fixture
def room(tmp_path):
    """Its inventory has two cells of hosts that belong to the registry."""
    inventory = simulated_fleet.make(tmp_path, HOSTS, 2, 1)
    tree = json.loads(inventory.read_text())
    names = sorted(tree["all"]["children"]["kvm_hosts"]["hosts"])
    for at, cell in enumerate(("cell1", "cell2")):
        tree["all"]["children"][cell] = {"hosts": {name: {} for name in names[at::2]}}
    inventory.write_text(json.dumps(tree))
    for name in names:
        facts = tmp_path / "hosts" / name / "host_facts.json"
        said = json.loads(facts.read_text())
        said["ansible_facts"]["berth_host"]["registry"] = {"kind": "etcd", "incarnation": "one", "revision": 1}
        facts.write_text(json.dumps(said))
    simulated_fleet.reset(tmp_path)
    return tmp_path


def worker(room, cell, registry):
    command = [Path(sys.executable).parent / "ansible-playbook", "-i", room / "inventory.json", "berth.kvm.refresh"]
    variables = ["--limit", cell, "-e", json.dumps(registry.variables)]
    environment = {**os.environ, "ANSIBLE_HOME": str(room / cell)}
    return subprocess.Popen(
        [*command, *variables], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )


def test_two_workers_read_their_cells_and_the_registry_has_all_hosts(room, tmp_path_factory):
    with over_tls(tmp_path_factory.mktemp("registry")) as registry:
        registry.write(keys.META, META)
        workers = [worker(room, cell, registry) for cell in ("cell1", "cell2")]
        outputs = [each.communicate(timeout=300)[0] for each in workers]
        assert [each.returncode for each in workers] == [0, 0], outputs
        assert all("%d hosts were read into the registry." % (HOSTS // 2) in output for output in outputs), outputs
        found = registry.engine.scan(Scan(keys.HOSTS))["found"]
        assert sorted(json.loads(each.value)["name"] for each in found.values()) == sorted(os.listdir(room / "hosts"))
        assert len(registry.engine.scan(Scan(keys.FACTS))["found"]) == HOSTS
