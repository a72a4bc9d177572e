# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""examples/awx/controller.yml: options that awx.awx has (recorded, tests/awx/record.py), playbooks and surveys that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.berth.kvm.plugins.plugin_utils.variables import KNOWN

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "awx"))

import build_image  # noqa: E402
import launch  # noqa: E402

AWX = ROOT / "examples" / "awx"
PLAY = yaml.safe_load((AWX / "controller.yml").read_text("utf-8"))[0]
MODULES = json.loads((ROOT / "tests/vectors/awx_options.json").read_text("utf-8"))["modules"]
TEMPLATES = PLAY["vars"]["templates"]
SURVEYS = {path.stem: json.loads(path.read_text("utf-8")) for path in AWX.glob("*.json")}
WORKFLOWS = [task["awx.awx.workflow_job_template"] for task in PLAY["tasks"] if "awx.awx.workflow_job_template" in task]


def calls():
    """[(module, arguments)] of the tasks."""
    return [
        (word.rpartition(".")[2], task[word]) for task in PLAY["tasks"] for word in task if word.startswith("awx.awx.")
    ]


def wrong(given, options, path):
    """What of the arguments the module would refuse; a template is known when it is run."""
    found = [
        "%s.%s is required" % (path, name)
        for name, spec in options.items()
        if spec.get("required") and name not in given
    ]
    for name, value in given.items():
        here, spec = "%s.%s" % (path, name), options.get(name)
        if spec is None:
            found.append("%s is no option" % here)
        elif isinstance(value, str) and "{{" in value:
            continue
        elif "choices" in spec and value not in spec["choices"]:
            found.append("%s is none of %s" % (here, spec["choices"]))
        elif not isinstance(value, {"dict": dict, "list": list, "bool": bool, "int": int}.get(spec.get("type"), str)):
            found.append("%s is no %s" % (here, spec.get("type")))
        elif "suboptions" in spec:
            for part in value if isinstance(value, list) else [value]:
                found += wrong(part, spec["suboptions"], here)
    return found


@pytest.mark.parametrize("module, given", calls(), ids=[module for module, _given in calls()])
def test_a_task_has_the_options_of_its_module(module, given):
    assert wrong(given, MODULES[module], module) == []


def test_an_option_that_there_is_not_is_found():
    assert wrong({"name": "x", "surveyspec": {}}, MODULES["job_template"], "job_template") == [
        "job_template.surveyspec is no option"
    ]


def test_each_job_template_runs_a_playbook_and_has_a_survey_that_there_is():
    assert [
        template for template in TEMPLATES if not (ROOT / "playbooks" / (template["playbook"] + ".yml")).exists()
    ] == []
    assert {template["survey"] for template in TEMPLATES if "survey" in template} <= set(SURVEYS)


def test_the_page_names_each_job_template():
    page = (ROOT / "docs/awx.md").read_text("utf-8")
    assert [template["name"] for template in TEMPLATES if template["name"] not in page] == []


def test_each_job_template_is_launched_on_the_lab():
    launched = re.findall(r'^job "([^"]+)"', (ROOT / "tests/runner.sh").read_text("utf-8"), re.MULTILINE)
    assert set(launched) == {template["name"] for template in TEMPLATES}


def test_an_answer_is_launched_as_text_that_is_no_template_and_what_the_template_says_as_it_is():
    own = {"berth_approved": {}}
    values = {**own, **launch.answers("create", {"berth_name": "{{ x }}"})}
    lines = launch.variables(values, own).splitlines()
    assert lines[0] == "berth_approved: {}"
    assert lines[1:3] == ["!unsafe 'berth_name': !unsafe '{{ x }}'", "!unsafe 'berth_flavor': !unsafe 'tiny'"]


@pytest.mark.parametrize("survey", SURVEYS.values(), ids=SURVEYS)
def test_each_answer_of_a_survey_is_a_variable(survey):
    roles = {"berth_confirm_window"}
    assert {question["variable"] for question in survey["spec"]} <= KNOWN | roles


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=[workflow["name"] for workflow in WORKFLOWS])
def test_a_workflow_runs_job_templates_that_take_its_answers_and_asks_a_person(workflow):
    nodes = {node["identifier"]: node for node in workflow["workflow_nodes"]}
    kinds = [node["unified_job_template"]["type"] for node in nodes.values()]
    assert kinds.count("workflow_approval") == 1
    takes = {template["name"] for template in TEMPLATES if template.get("variables") or template.get("survey")}
    run = {
        node["unified_job_template"]["name"]
        for node in nodes.values()
        if node["unified_job_template"]["type"] == "job_template"
    }
    assert run <= takes
    after = [
        name["identifier"] for node in nodes.values() for names in node.get("related", {}).values() for name in names
    ]
    assert sorted(after) == sorted(set(nodes) - {next(iter(nodes))})


def test_without_an_approval_the_template_for_approved_instances_makes_nothing():
    """Its own berth_approved allows nothing; the artifact of the job before replaces it."""
    template = next(template for template in TEMPLATES if template["name"] == "Create what was approved")
    assert template["extra"] == {"berth_approved": {}}


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    """The build context that ansible-builder makes of examples/awx/execution-environment.yml."""
    builder = Path(sys.executable).parent / "ansible-builder"
    if not builder.exists():
        pytest.skip("ansible-builder is not installed")
    folder = tmp_path_factory.mktemp("ee")
    shutil.copy(AWX / "execution-environment.yml", folder)
    (folder / "berth-kvm.tar.gz").write_bytes(b"the tarball")
    command = [builder, "create", "--file", folder / "execution-environment.yml", "--context", folder / "context"]
    done = subprocess.run(
        [*command, "--output-filename", "Containerfile"], capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "context"


def test_the_package_manager_of_the_build_is_that_of_its_base_image(context):
    """ansible-builder takes dnf where nothing is said, and its pip comes of the base's Python."""
    text = (context / "Containerfile").read_text("utf-8")
    assert re.search(r'EE_BASE_IMAGE="quay.io/centos/centos:stream\d+"', text) and 'PKGMGR="/usr/bin/dnf"' in text
    python = re.search(r'PYCMD="/usr/bin/(python3\.\d+)"', text).group(1)
    assert "$PKGMGR install $PYPKG" in text and 'PYPKG="%s"' % python in text


def test_every_step_of_the_build_is_one_that_is_carried_out_without_an_engine(context):
    """tests/execution_environment.sh does that."""
    steps = re.findall(r"^([A-Z]+) ", (context / "Containerfile").read_text("utf-8"), re.MULTILINE)
    assert [step for step in steps if not hasattr(build_image.Build, "do_" + step.lower())] == []


def test_the_tarball_is_where_the_build_installs_it_from(context):
    wanted = yaml.safe_load((context / "_build/requirements.yml").read_text("utf-8"))["collections"]
    assert [item for item in wanted if not (context / "_build" / item["name"]).is_file()] == []


def test_the_environment_gets_what_the_collection_needs(context):
    """meta/execution-environment.yml leads to requirements.txt and bindep.txt."""
    builder = Path(sys.executable).parent / "ansible-builder"
    done = subprocess.run(
        [builder, "introspect", ROOT / ".cache/collections"], capture_output=True, text=True, check=True
    )
    told = yaml.safe_load(done.stdout)
    for name in ("cryptography", "jmespath", "netaddr"):
        assert any(line.startswith(name) for line in told["python"])
    assert any(line.startswith("openssh-clients [platform:rpm]") for line in told["system"])
