# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What whoever operates moves gets to see, and what a timer does for them (R05)."""

from __future__ import annotations

import json
import re

import pytest
from conftest import make_whole

from playbooks import catalog, homes, records, vm

COPYING = re.compile(r"^soon: copying ([0-9.]+ \S+) of [0-9.]+ MiB, ([0-9]+) %(, .*/s, .* left)?$", re.MULTILINE)


@pytest.fixture(scope="module")
def resized(prepared_lab, image, tmp_path_factory):
    """Two instances resized by one slow run, one with a window that is over at once -> (lab, inventory file, the run)."""
    make_whole(prepared_lab)
    path = tmp_path_factory.mktemp("resized") / "instances.yml"
    hosts = {
        "soon": {**vm("{{ wanted | default('tiny') }}"), "berth_confirm_window": 1, "berth_bandwidth": 1},
        "later": {**vm("{{ wanted | default('tiny') }}"), "berth_confirm_window": 3600},
    }
    path.write_text(json.dumps({"all": {"vars": catalog(image), "children": {"instances": {"hosts": hosts}}}}))
    prepared_lab.ansible_playbook("berth.kvm.create", inventory=[path])
    wanted = {"wanted": "two", "berth_instances": "instances", "berth_shutdown_timeout": 1}
    done = prepared_lab.ansible_playbook("berth.kvm.resize", inventory=[path], extra_vars=wanted)
    yield prepared_lab, path, done
    make_whole(prepared_lab)


def test_a_slow_copy_says_how_far_it_is(resized):
    """The first line may have no rate yet."""
    said = COPYING.findall(resized[2].stdout)
    amounts, percents = [amount for amount, _percent, _left in said], [int(percent) for _amount, percent, _left in said]
    assert len(said) >= 2 and said[-1][2], resized[2].stdout
    assert percents == sorted(percents) and len(set(amounts)) == len(amounts), resized[2].stdout


def test_the_end_of_a_resize_says_what_is_next_and_until_when(resized):
    """In the table, for each of the two; it wraps what it says."""
    told = " ".join(resized[2].stdout.partition("INSTANCE ")[2].split())
    waits = r"waits for confirm_resize or revert_resize; confirm_due confirms it in \d+ s"
    said = re.findall(r"\b(later|soon) (?:(?!later |soon ).)*?" + waits, told)
    assert sorted(said) == ["later", "soon"], resized[2].stdout


def test_instance_info_has_the_deadline_and_no_progress_of_what_has_ended(resized):
    lab = resized[0]
    info = lab.module(homes(lab)["later"], "berth.kvm.instance_info")
    move = next(
        instance["migration"]
        for instance in info["instances"]
        if instance["name"] == "later" and instance["role"] == "OWN"
    )
    assert move["confirm_by"] > 1_700_000_000
    assert (move["status"], move["progress"]) == ("finished", None)


def test_confirm_due_confirms_what_is_due_and_only_that(resized):
    lab, path, _done = resized
    lab.guest_facts("soon", homes(lab)["soon"], timeout=180)  # a timer confirms no guest that nobody saw come up
    first = lab.ansible_playbook("berth.kvm.confirm_due", inventory=[path])
    assert "later: not due, it waits for confirm_resize" in first.stdout
    assert sorted(name for _host, name, _role in records(lab)) == ["later", "later", "soon"]
    again = lab.ansible_playbook("berth.kvm.confirm_due", inventory=[path])
    assert set(again.changed.values()) <= {0}
