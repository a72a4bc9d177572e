# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placement on real hosts where not every host is as one would wish (S11, bad input: a host that lies, unreachable hosts)."""

from __future__ import annotations

import json
import os
from pathlib import Path

from playbooks import catalog, homes, left, records, vm

CANARY = Path("/tmp/berth-canary-of-a-lying-host")
LIAR = """#!/bin/sh
cat > /dev/null
cat /root/lie.json
"""


def test_unreachable_host_is_a_verdict_and_the_rest_goes_on(lab, image, inventory):
    """S11."""
    lab.cut(3)
    done = lab.ansible_playbook("berth.kvm.create", inventory=[inventory({"a": vm(), "b": vm()}, catalog(image))])
    assert set(homes(lab)) == {"a", "b"}
    assert "host %s left out: UNREACHABLE" % lab.host(3) in done.stdout


def test_existing_instance_on_a_silent_host_is_never_made_twice(lab, image, inventory):
    """I1: the other hosts remember where it is; once its host answers again nothing has changed."""
    path = inventory({"a": vm(target_host=lab.host(3)), "b": vm(target_host=lab.host(1))}, catalog(image))
    lab.ansible_playbook("berth.kvm.create", inventory=[path])
    before = records(lab)
    lab.cut(3)
    path = inventory({"a": vm(), "b": vm(), "c": vm()}, catalog(image))
    done = lab.ansible_playbook("berth.kvm.create", inventory=[path], check=False)
    assert done.rc == 2
    assert "InstanceUnknown: a was last seen on %s" % lab.host(3) in done.stdout
    lab.heal(3)
    assert [record for record in records(lab) if record[1] != "c"] == before
    assert "c" in homes(lab)


def test_no_host_left(lab, image, inventory):
    """Exit status, what each host lacked, and nothing changed anywhere (C11, S07)."""
    done = lab.ansible_playbook(
        "berth.kvm.create", inventory=[inventory({"a": vm("huge")}, catalog(image))], check=False
    )
    assert done.rc == 2
    assert "NoValidHost" in done.stdout
    for row in lab.status()["hosts"]:
        assert any(row["name"] in line and "VCPU" in line for line in done.stdout.splitlines()), done.stdout
    assert left(lab) == {}


def test_lying_host_owns_nothing(lab, image, inventory):
    """CVE-2016-9587 and kin: Jinja in what a host sends is never rendered; broken facts are a verdict."""
    lie = lab.module(lab.host(2), "berth.kvm.host_facts")["ansible_facts"]["berth_host"]
    template = "{{ lookup('ansible.builtin.pipe', 'touch %s') }}" % CANARY
    lie["host"] = lie["node"] = lie["hypervisor_hostname"] = lie["service"]["disabled_reason"] = template
    lie["memory_mb"] = "NAN"
    text = json.dumps({"changed": False, "ansible_facts": {"berth_host": lie}}).replace('"NAN"', "NaN")
    lab.sh(
        2,
        "cat > /root/liar <<'EOF'\n%sEOF\nchmod 755 /root/liar; cat > /root/lie.json <<'EOF'\n%s\nEOF\n" % (LIAR, text),
    )
    path = inventory({"a": vm()}, catalog(image))
    hosts = path.parent / "liar.yml"
    hosts.write_text(json.dumps({"all": {"hosts": {lab.host(2): {"ansible_python_interpreter": "/root/liar"}}}}))
    done = lab.ansible_playbook("berth.kvm.create", inventory=[path, hosts])
    assert homes(lab)["a"] != lab.host(2)
    assert "host %s left out:" % lab.host(2) in done.stdout
    assert not os.path.exists(CANARY)


def test_place_explains_and_changes_nothing(lab, image, inventory):
    done = lab.ansible_playbook("berth.kvm.place", inventory=[inventory({"a": vm()}, catalog(image))])
    assert lab.host(1) in done.stdout
    assert left(lab) == {}


def test_fleet_table_has_a_line_per_host(lab, image, inventory):
    done = lab.ansible_playbook("berth.kvm.host_facts", inventory=[inventory({}, catalog(image))])
    for row in lab.status()["hosts"]:
        assert any(line.split()[:1] == [row["name"]] and line.endswith(" up") for line in done.stdout.splitlines()), (
            done.stdout
        )
