# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create, seen from outside and from inside the guests: what a user does first."""

from __future__ import annotations

import collections
import hashlib
import json
import re

import pytest
from conftest import make_whole

from playbooks import KEY, catalog, homes, left, records, vm, watched

FOUR = {
    "web1": vm(server_group="pair", ssh_keys=[KEY]),
    "web2": vm(server_group="pair"),
    "db": vm("two", networks=[{"network": "lan", "address": "{{ lab_guest_prefix }}.220"}]),
    "cache": vm(
        user_data="#cloud-config\n# lab-marker: cachemark\n",
        metadata={"lab-word": "yes", "other": "1e3"},
        files=[{"path": "/run/lab-file", "content": "inside\n"}],
        key_names="ops",
    ),
}


@pytest.fixture(scope="module")
def four(prepared_lab, image, tmp_path_factory):
    """Four instances made by one run of the playbook -> (lab, inventory file, the run)."""
    make_whole(prepared_lab)
    path = tmp_path_factory.mktemp("four") / "instances.yml"
    path.write_text(
        json.dumps(
            {
                "all": {
                    "vars": catalog(image, berth_keypairs_defined={"ops": KEY}),
                    "children": {"instances": {"hosts": FOUR}},
                }
            }
        )
    )
    planned = prepared_lab.ansible_playbook("berth.kvm.create", "--check", inventory=[path])
    assert planned.stdout.count("would be made") == 4
    assert left(prepared_lab) == {}, "check mode changed something"
    done = prepared_lab.ansible_playbook("berth.kvm.create", inventory=[path])
    yield prepared_lab, path, done
    make_whole(prepared_lab)


def test_each_instance_is_changed_once(four):
    _lab, _path, done = four
    assert {name: done.changed[name] for name in FOUR} == dict.fromkeys(FOUR, 1)


def test_the_report_says_where_and_why(four):
    lab, _path, done = four
    for name, host in homes(lab).items():
        assert any(line.split()[:3] == [name, "active", host] for line in done.stdout.splitlines()), done.stdout


def test_anti_affine_pair_is_on_two_hosts(four):
    """S40."""
    where = homes(four[0])
    assert where["web1"] != where["web2"]


@pytest.mark.parametrize("name, vcpus, memory_mb, disk_gb", [("web1", 1, 128, 1), ("db", 2, 192, 2)])
def test_guest_has_what_its_flavor_says(four, name, vcpus, memory_mb, disk_gb):
    facts = four[0].guest_facts(name, timeout=120)
    assert (facts["vcpus"], facts["disk"]) == (vcpus, disk_gb << 30)
    assert memory_mb * 1024 * 0.5 < facts["mem_kib"] <= memory_mb * 1024


@pytest.mark.parametrize(
    "name, key, value",
    [
        ("web1", "key", KEY.replace(" ", "_")),
        ("cache", "marker", "cachemark"),
        ("db", "ip", ".220"),
        ("cache", "key", KEY.replace(" ", "_")),
        ("cache", "meta", "yes"),
        ("cache", "file", "inside"),
    ],
    ids=["ssh key (A10)", "user data (A08)", "address (C06)", "key pair", "metadata (A20)", "file (A20)"],
)
def test_guest_got_its_seed(four, name, key, value):
    facts = four[0].guest_facts(name, timeout=120, until=lambda said: said.get(key))
    assert value in facts[key]


def test_the_console_and_the_address_of_a_guest_are_shown(four):
    lab, path, _done = four
    lab.guest_facts("web1", timeout=120)
    shown = lab.ansible_playbook("berth.kvm.console", "--limit", "web1", inventory=[path])
    assert "berth-guest ready" in shown.stdout and "virsh console" in shown.stdout
    assert set(shown.changed.values()) == {0}


def test_again_is_no_change(four, tmp_path):
    """I4. The hosts say with their facts that nothing is to be done, and the run ends there."""
    lab, path, _done = four
    before, counts = records(lab), tmp_path / "counts"
    again = lab.ansible_playbook("berth.kvm.create", inventory=[path], env=watched(counts))
    tasks = [json.loads(line)["task"].rpartition(" : ")[2] for line in counts.read_text().splitlines()]
    assert tasks == ["Read the state of all hosts", "Choose a host for each instance"]
    assert set(again.changed.values()) == {0}
    assert records(lab) == before


def test_limit_selects_instances_and_still_asks_all_hosts(four):
    lab, path, _done = four
    limited = lab.ansible_playbook("berth.kvm.create", "--limit", "web*", inventory=[path])
    assert set(limited.changed.values()) == {0}
    assert set(re.findall(r"^(\w+) +unchanged ", limited.stdout, re.M)) == {"web1", "web2"}


def test_stop_and_start(four):
    lab, path, _done = four
    host = homes(lab)["web1"]
    lab.guest_facts("web1", timeout=120)
    running = len(lab.domains(host))
    assert lab.ansible_playbook("berth.kvm.stop", "--limit", "web1", inventory=[path]).changed == {"web1": 1}
    assert len(lab.domains(host)) == running - 1
    # create starts only what it makes; what was stopped on purpose stays so, and its line says what to do
    again = lab.ansible_playbook("berth.kvm.create", "--limit", "web1", inventory=[path])
    assert set(again.changed.values()) == {0} and "stopped; run berth.kvm.start" in again.stdout
    assert len(lab.domains(host)) == running - 1
    assert lab.ansible_playbook("berth.kvm.start", "--limit", "web1", inventory=[path]).changed == {"web1": 1}
    assert len(lab.domains(host)) == running


def test_twenty_instances_take_one_build_on_each_host(lab, image, inventory, tmp_path):
    """Happy path: all hosts are read, claimed on, built on and told once for all of them; each instance then says how it fared.

    The guests have an empty disk: what they do does not matter here, and twenty that boot would load the machine.
    """
    lab.sh(1, "truncate -s 1M /srv/shared/images/empty.raw")
    checksum = "sha256:" + hashlib.sha256(bytes(1 << 20)).hexdigest()
    image = {"url": "/srv/shared/images/empty.raw", "checksum": checksum, "disk_format": "raw"}
    instances = {"vm%02d" % number: vm() for number in range(20)}
    counts = tmp_path / "counts"
    path = inventory(instances, catalog(image))
    lab.ansible_playbook("berth.kvm.create", "--forks", "10", inventory=[path], env=watched(counts))
    lines = [json.loads(line) for line in counts.read_text().splitlines()]
    assert collections.Counter(line["task"].rpartition(" : ")[2] for line in lines) == {
        "Read the state of all hosts": 1,
        "Choose a host for each instance": 1,
        "Claim room, build and start the instance": 20,
    }
    assert len(homes(lab)) == 20


def test_instances_that_are_in_no_inventory(lab, image, inventory):
    """What a survey sends: name, flavor, image and count."""
    path = inventory({}, catalog(image))
    asked = {"berth_name": "job", "berth_flavor": "tiny", "berth_image": "guest", "berth_count": 2}
    lab.ansible_playbook("berth.kvm.create", inventory=[path], extra_vars=asked)
    assert set(homes(lab)) == {"job-1", "job-2"}
    lab.ansible_playbook("berth.kvm.delete", inventory=[path], extra_vars=asked)
    assert left(lab) == {}


def test_batch_is_all_or_nothing(lab, image, inventory):
    """S07: room for one of them is not enough."""
    path = inventory({}, catalog(image, berth_quotas={"default": {"cores": 99}}))
    asked = {"berth_name": "job", "berth_flavor": "half", "berth_image": "guest", "berth_count": 30}
    done = lab.ansible_playbook("berth.kvm.create", inventory=[path], extra_vars=asked, check=False)
    assert done.rc == 2
    assert left(lab) == {}
