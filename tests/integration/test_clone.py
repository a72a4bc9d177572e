# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clones, and images made of instances, seen from inside of guests that write all the time."""

from __future__ import annotations

import json
import re

import pytest
from test_resize import cases, facts, mover, verified  # noqa: F401  pylint: disable=unused-import

from playbooks import homes, records

OTHER, IMAGE = "other", "golden"
BOTH = {"berth_name": cases.NAME, "berth_new_name": OTHER}


@pytest.fixture
def case(mover):  # noqa: F811
    """The mover, and no image of it."""
    found, host = mover
    remove = "rm -f /srv/shared/images/%s.qcow2" % IMAGE
    found.lab.sh(host, remove)
    yield found
    found.lab.sh(host, remove)


def delete(case):
    case.lab.ansible_playbook("berth.kvm.delete", inventory=[case.path], extra_vars={"berth_name": OTHER})


def play(case, playbook, **given):
    return case.lab.ansible_playbook("berth.kvm." + playbook, inventory=[case.path], extra_vars=given)


def test_a_clone_of_a_running_guest_has_all_that_was_acknowledged_and_both_go_on(case):
    source = case.owner()
    dry = case.lab.ansible_playbook("berth.kvm.clone", "--check", "--diff", inventory=[case.path], extra_vars=BOTH)
    assert "would be made" in dry.output and records(case.lab) == [(source, cases.NAME, "OWN")]
    before = facts(case, source, lambda said: said["ack"] > 30)
    play(case, "clone", **BOTH)
    assert homes(case.lab)[OTHER] == source
    inside = case.lab.guest_facts(OTHER, source, timeout=180, until=verified)
    assert inside["verify"]["result"] == "ok" and inside["verify"]["last"] >= before["ack"]
    assert inside["mac"] != before["mac"] and inside["host"] == OTHER
    after = facts(case, source, lambda said: said["ack"] > before["ack"])
    assert after["boots"] == before["boots"] and after["up"] > before["up"]  # it was not stopped
    again = play(case, "clone", **BOTH)
    assert not any(again.changed.values()), again.changed
    case.play("stop")
    delete(case)
    play(case, "clone", **BOTH)  # of a guest that is off
    assert case.lab.guest_facts(OTHER, source, timeout=180, until=verified)["verify"]["result"] == "ok"
    delete(case)
    assert records(case.lab) == [(source, cases.NAME, "OWN")]


def test_an_image_of_a_running_guest_makes_instances(case, tmp_path):
    source = case.owner()
    before = facts(case, source, lambda said: said["ack"] > 30)
    said = case.play("image_from_instance", {"berth_new_image": IMAGE}).output
    checksum = re.search(r"checksum: (sha256:[0-9a-f]{64})", said).group(1)
    tree = json.loads(case.path.read_text())
    hosts = tree["all"]["children"]["instances"]["hosts"]
    image = {"url": "/srv/shared/images/%s.qcow2" % IMAGE, "checksum": checksum, "disk_format": "qcow2", "min_disk": 1}
    more = {"berth_image": IMAGE, "berth_images": {IMAGE: image}}
    hosts[OTHER] = {**hosts[cases.NAME], **more}
    path = tmp_path / "two.yml"
    path.write_text(json.dumps(tree))
    case.lab.ansible_playbook("berth.kvm.create", "--limit", OTHER, inventory=[path])
    there = homes(case.lab)[OTHER]
    inside = case.lab.guest_facts(OTHER, there, timeout=180, until=verified)
    assert inside["verify"]["result"] == "ok" and inside["verify"]["last"] >= before["ack"]
    case.lab.ansible_playbook("berth.kvm.delete", "--limit", OTHER, inventory=[path])
    assert not any(case.play("image_from_instance", {"berth_new_image": IMAGE}).changed.values())
