# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets the tests of actions share their controller, and how it locates instances."""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory, monkeypatch):
    """What other tests kept on this controller is not found."""
    state = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    return state / "berth"


@pytest.fixture
def locate():
    """locate(method, run variables, h1=[...], ...): what the action gives as berth_located, or its failure."""
    from controller import Controller

    document_of = json.loads((Path(__file__).parent / "host.json").read_text())

    def act(
        method,
        run,
        instance=None,
        selected=True,
        unknown=False,
        names=("web1",),
        notes=None,
        more=(),
        failed=None,
        **hosts,
    ):
        facts = {}
        for name, instances in hosts.items():
            if instances is None:
                continue
            identity = str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
            document = {**document_of, "uuid": identity, "instances": instances, "num_instances": len(instances)}
            document["failed_instances"] = (failed or {}).get(name, [])
            facts[name] = {"berth_host": document}
        described = {} if unknown else {"berth_flavor": "small"}
        variables = {"web1": {**described, **(instance or {})}, "all": run, **{name: described for name in more}}
        controller = Controller({"kvm_hosts": list(hosts), "vms": ["web1", *more]}, variables, facts)
        if notes:
            told = {name: {"ansible_facts": facts[name], "notes": notes.get(name, {})} for name in facts}
            controller.register("localhost", __berth_facts={"answers": told})
        result = controller.run("locate_instances", {"instances": list(names), "method": method, "selected": selected})
        return result["ansible_facts"]["berth_located"] if "ansible_facts" in result else result

    return act
