# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules that are one step of a playbook, run by themselves, as by ansible -m."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import yaml
from controller import Controller

from ansible_collections.berth.kvm.plugins.module_utils.model import input_hints

PLUGINS = Path(__file__).resolve().parents[4] / "plugins"
STEPS = {
    "report_failure": "berth_results",
}


@pytest.mark.follows("run_playbook")
@pytest.mark.parametrize("module", STEPS)
def test_a_step_of_a_playbook_that_is_run_alone_says_so(module):
    result = Controller({"kvm_hosts": ["h1"]}, {}).run(module, {})
    assert result["error_code"] == "InvalidInput" and result["error"]["field"] == STEPS[module]
    assert result["error"]["hint"] == input_hints.run_playbook()


def specs():
    for path in sorted((PLUGINS / "action").glob("*.py")):
        action = importlib.import_module("ansible_collections.berth.kvm.plugins.action." + path.stem).ActionModule
        if getattr(action, "argument_spec", None):
            yield path.stem, action.argument_spec


@pytest.mark.parametrize("module, spec", list(specs()))
def test_an_action_requires_the_arguments_that_its_page_calls_required(module, spec):
    page = importlib.import_module("ansible_collections.berth.kvm.plugins.modules." + module).DOCUMENTATION
    options = yaml.safe_load(page).get("options") or {}
    required = {name for name, option in options.items() if option.get("required")}
    assert {name for name in options if spec[name].get("required")} == required
