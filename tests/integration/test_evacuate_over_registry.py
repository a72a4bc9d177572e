# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Over a registry in a real etcd a lost host's instance runs on another host, and the lost one, once it is back, forgets it."""

from __future__ import annotations

import os
import signal
import time

import pytest
from registry_fixture import IS_HERE, of_one_member  # noqa: F401  pylint: disable=unused-import
from test_evacuate import (  # noqa: F401  pylint: disable=unused-import
    BACKUPS,
    DATA,
    WRITES,
    agent,
    backed_up,
    lost_after_backup,
    owners,
    shared,
)
from test_move_shared import POOL, SHARE

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


@pytest.mark.slow
def test_an_evacuation_from_a_backup_that_is_killed_goes_on(backed_up, image, inventory, registry):  # noqa: F811
    """With a host's claim, and with its own instance, as the last thing that happened; the volume comes along each time."""
    lab = backed_up
    path = inventory({"one": vm(volumes=["data"], user_data=WRITES, backup_to=BACKUPS)}, catalog(image, **DATA))

    def play(name, *words, check=True, **variables):
        more = {"extra_vars": {**registry.variables, **variables}, "check": check, "timeout": 600}
        return lab.ansible_playbook("berth.kvm." + name, *words, inventory=[path], **more)

    def killed_at(role, **variables):
        run = lab.start_playbook("berth.kvm.evacuate", inventory=[path], extra_vars={**registry.variables, **variables})
        while run.poll() is None and not any(found == role for _host, _name, found in records(lab)):
            time.sleep(0.05)
        assert run.poll() is None, run.communicate()[0]
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()

    play("use_registry")
    lost, before = lost_after_backup(lab, play)
    asked = {"berth_lost_hosts": lost, "berth_evacuate_from_backup": True}
    for role in ("CLAIM", "OWN"):
        killed_at(role, **asked)
    play("evacuate", **asked)
    play("create", berth_lost_hosts=lost)
    ((host, name, role),) = records(lab)
    assert host != lost and (name, role) == ("one", "OWN") and list(registry.owners().values()) != [lost]
    facts = lab.guest_facts("one", host, timeout=180, until=lambda said: said["verify"]["result"] != "none")
    assert facts["verify"]["result"] == "ok" and facts["nonce"] == before["nonce"] == facts["extra"]
    assert facts["mac"] == before["mac"]

    lab.start(lost)
    assert "outdated copy set aside" in play("start_after_outage").output
    assert records(lab) == [(host, "one", "OWN")]
    assert "root.qcow2" in lab.sh(lost, "ls %s/set-aside/*/" % POOL).stdout
    assert play("audit").changed.get("localhost", 0) == 0
    play("delete", berth_all=True)
    assert registry.owners() == {}
    play("use_registry", berth_leave_registry=True)
