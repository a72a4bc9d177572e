# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Over a registry in a real etcd a lost host's instance runs on another host, and the lost one, once it is back, forgets it."""

from __future__ import annotations

import os

import pytest
from registry_fixture import IS_HERE, of_one_member  # noqa: F401  pylint: disable=unused-import
from test_evacuate import agent, owners, shared  # noqa: F401  pylint: disable=unused-import
from test_move_shared import SHARE

from playbooks import catalog, records, vm

pytestmark = pytest.mark.skipif(not IS_HERE, reason="there is no etcd on this machine")


@pytest.mark.slow
def test_a_host_that_was_evacuated_forgets_what_it_had(shared, image, inventory, agent, registry):  # noqa: F811
    lab = shared
    path = inventory({"one": vm()}, catalog(image))
    fence = {"agent": "fence_lab", "lab": lab.name, "plug": "{{ inventory_hostname }}", "password": "s3cret"}
    env = {"PATH": "%s:%s" % (agent.parent, os.environ["PATH"])}

    def play(name, *words, check=True, **variables):
        given = {"berth_fence": fence, **registry.variables, **variables}
        more = {"extra_vars": given, "check": check, "env": env, "timeout": 600}
        return lab.ansible_playbook("berth.kvm." + name, *words, inventory=[path], **more)

    play("use_registry")
    play("create")
    lost, before = owners(lab)["one"], registry.owners()
    lab.cut(lost)
    assert "would be switched off" in play("evacuate", "--check", berth_kvm_host=lost).output
    assert registry.owners() == before
    play("evacuate", berth_kvm_host=lost)
    now = owners(lab)["one"]
    assert now != lost and registry.owners() != before

    lab.start(lost)
    lab.sh(lost, SHARE)
    lab.heal(lost)
    assert "outdated copy removed" in play("start_after_outage").output
    assert records(lab) == [(now, "one", "OWN")] and not lab.sh(lost, "virsh -q list --all --name").stdout.strip()
    assert play("audit").changed.get("localhost", 0) == 0
    play("delete", berth_all=True)
    assert registry.owners() == {}
    play("use_registry", berth_leave_registry=True)
