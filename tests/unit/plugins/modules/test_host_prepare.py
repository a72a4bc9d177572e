# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module host_prepare: what it forgets, and that a later run and check mode tell the truth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import counters
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.module_utils.conductor import doctor
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import Fleet
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints
from ansible_collections.berth.kvm.plugins.modules import host_prepare

ROLE = Path(__file__).resolve().parents[4] / "roles" / "kvm_host"
SETTINGS = {"reserved_host_memory_mb": 512}
PREPARED = {"changed": [], "before": SETTINGS, "after": SETTINGS, "uuid": "u", "listener": "libvirtd", "restart": []}


@pytest.fixture
def state(tmp_path):
    tmp_path.chmod(0o700)
    return str(tmp_path)


@pytest.fixture
def run(state, ended, monkeypatch):
    """run(check_mode, options) -> the result of main() on a host that is prepared."""

    def run(check_mode=False, **options):
        monkeypatch.setattr(host_prepare, "Store", lambda action: Store(state))
        monkeypatch.setattr(host_prepare, "connect", lambda: None)
        monkeypatch.setattr(host_prepare, "prepare", lambda *_args, **_options: dict(PREPARED))
        return ended(host_prepare, check_mode, options)

    return run


def told(result):
    found = [json.loads(result["diff"][when]).get("failed_builds") for when in ("before", "after")]
    return result["changed"], result["forgotten_failed_builds"], found


def test_failed_builds_are_forgotten_once(run, state):
    counters.add_failed_build(state)
    counters.add_failed_build(state)
    assert told(run(forget_failed_builds=True)) == (True, 2, [2, 0])
    assert counters.count_failed_builds(state) == 0
    assert told(run(forget_failed_builds=True)) == (False, 0, [None, None])


def test_check_mode_tells_what_would_be_forgotten_and_forgets_nothing(run, state):
    counters.add_failed_build(state)
    assert told(run(check_mode=True, forget_failed_builds=True)) == (True, 1, [1, 0])
    assert counters.count_failed_builds(state) == 1


def test_without_the_option_a_host_keeps_its_failed_builds(run, state):
    counters.add_failed_build(state)
    assert told(run()) == (False, 0, [None, None])
    assert counters.count_failed_builds(state) == 1


@pytest.mark.parametrize("parts, outdated", [(["gate", "settings"], [["gate"], []]), (["settings"], [None, None])])
def test_the_diff_has_what_is_renewed_beside_the_settings(parts, outdated):
    """After an upgrade that is the boot gate, and the settings are as they were."""
    diff = host_prepare.shown({**PREPARED, "changed": parts}, [], 0)
    assert [json.loads(diff[when]).get("outdated") for when in ("before", "after")] == outdated


def look(state):
    """What the doctor finds on kvm1, by what the host tells."""
    document = {"uuid": "uuid-of-kvm1", "prepared": True, "instances": [], **counters.reported_failed_builds(state)}
    return doctor.examine(doctor.Case(Fleet({"kvm1": document}, {}, {}), {}, {}, ["kvm1"], (0.0, 0.0)))


@pytest.mark.follows("forget_failed_builds")
def test_a_repaired_host_is_no_longer_avoided_after_the_run_that_the_doctor_names(run, state):
    counters.add_failed_build(state)
    (found,) = look(state)
    assert (found.code, found.severity, found.where) == ("HostAvoided", "warning", "kvm1")
    assert found.said.startswith("1 failed build, 1 min ago") and found.todo == fleet_hints.forget_failed_builds("kvm1")
    assert "berth.kvm.prepare_hosts --limit kvm1 -e berth_host_forget_failed_builds=true" in found.todo
    tasks = yaml.safe_load((ROLE / "tasks/main.yml").read_text("utf-8"))
    (options,) = [task["berth.kvm.host_prepare"] for task in tasks if "berth.kvm.host_prepare" in task]
    (option,) = [name for name, value in options.items() if value == "{{ __kvm_host_forget_failed_builds }}"]
    run(**{option: True})
    assert look(state) == []
