# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A newer ansible-core is used with a warning: fast while its private parts have the known form, else by ansible-playbook. An
older one is refused with one error, before anything is asked or changed."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible.release import __version__ as running
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import AnsibleUnknown
from ansible_collections.berth.kvm.plugins.module_utils.model import host_hints
from ansible_collections.berth.kvm.plugins.plugin_utils import known_ansible

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).resolve().parents[4]
sys.path.insert(0, str(REPOSITORY / "tests" / "unit" / "replies"))
import fake_fleet  # noqa: E402

KNOWN = ["2.19.0", "2.19.14", "2.20.3", "2.21.0rc1", "2.21.5", "2.22.0b1", "2.22.1"]
OLDER = ["2.9.27", "2.18.9"]
NEWER = ["2.23.0.dev0", "2.23.0", "2.190.0", "3.0.0"]
PART = "ansible.executor.process.worker.current_worker"  # one of those that the check looks for


@pytest.mark.parametrize("version", KNOWN)
def test_a_known_version_is_let_through(monkeypatch, version):
    monkeypatch.setattr(known_ansible, "VERSION", version)
    assert known_ansible.delegates().__name__.endswith(".delegates")


@pytest.mark.follows("install_on_controller")
@pytest.mark.parametrize("version", NEWER)
def test_a_newer_version_of_the_same_form_is_used_with_a_warning(monkeypatch, version):
    told = []
    monkeypatch.setattr(known_ansible, "VERSION", version)
    monkeypatch.setattr(known_ansible, "warn", told.append)
    assert known_ansible.delegates().__name__.endswith(".delegates")
    assert len(told) == 1 and version in told[0] and known_ansible.TRIED[-1] in told[0]


def worker_that_takes(monkeypatch, needed, also=()):
    """Workers of the next version need those arguments, and take others ``also``."""
    defaults = {**dict.fromkeys(needed, inspect.Parameter.empty), **dict.fromkeys(also)}
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name]) for name in defaults]

    def made(self, **_given):
        pass

    made.__signature__ = inspect.Signature([own, *taken])
    monkeypatch.setattr(known_ansible, "VERSION", NEWER[0])
    monkeypatch.setattr("ansible.executor.process.worker.WorkerProcess.__init__", made)


def test_a_newer_version_whose_workers_can_take_more_is_used(monkeypatch):
    worker_that_takes(monkeypatch, known_ansible.WORKER_TAKES, also=["more"])
    known_ansible.check()


@pytest.mark.parametrize("needed", [{"final_q", "task"}, {*known_ansible.WORKER_TAKES, "more"}])
def test_with_a_newer_version_whose_workers_take_something_else_ansible_playbook_asks(monkeypatch, needed):
    worker_that_takes(monkeypatch, needed)
    told = []
    monkeypatch.setattr(known_ansible, "warn", told.append)
    assert known_ansible.delegates().apart.__module__.endswith(".delegates_by_playbook")
    assert len(told) == 1 and NEWER[0] in told[0] and "slow" in told[0]


def test_a_newer_version_that_packs_modules_in_another_way_is_used(monkeypatch):
    monkeypatch.setattr(known_ansible, "VERSION", NEWER[0])
    monkeypatch.delattr("ansible.executor.module_common.recursive_finder")
    known_ansible.check()


@pytest.mark.parametrize("version", OLDER)
def test_an_older_version_is_named_with_those_that_were_tried_and_what_to_install(monkeypatch, version):
    monkeypatch.setattr(known_ansible, "VERSION", version)
    monkeypatch.delattr(PART)
    for use in (known_ansible.check, known_ansible.delegates):
        with pytest.raises(AnsibleUnknown) as refused:
            use()
        said = str(refused.value)
        assert all(part in said for part in (version, *known_ansible.TRIED))
    assert refused.value.hint == host_hints.install_on_controller(known_ansible.REQUIREMENT)
    asked = Requirement(re.search("pip install '(.+)'", refused.value.hint)[1])
    assert asked.name == "ansible-core" and not asked.specifier.contains(version, prereleases=True)
    for tried in known_ansible.TRIED:
        assert asked.specifier.contains(tried + ".1")
        monkeypatch.setattr(known_ansible, "VERSION", tried + ".1")
        known_ansible.check()


def test_this_ansible_is_one_that_is_known():
    """Else nothing of these tests says anything: see tests/matrix.sh."""
    assert running == known_ansible.VERSION
    known_ansible.check()


def requirements():
    """{file: the versions of ansible-core that it lets in}"""
    found = {}
    for name in ("requirements.txt", "examples/awx/execution-environment.yml"):
        found[name] = re.search("ansible-core(.+)", (REPOSITORY / name).read_text("utf-8"))[1]
    return {**found, "known_ansible.py": Requirement(known_ansible.REQUIREMENT).specifier}


@pytest.mark.parametrize("version", KNOWN + OLDER + NEWER)
def test_what_is_installed_with_the_collection_is_what_was_tested(version):
    known = ".".join(version.split(".")[:2]) in known_ansible.TRIED
    base = Version(version).base_version  # Ansible compares that
    assert {
        name: SpecifierSet(str(versions)).contains(base) for name, versions in requirements().items()
    } == dict.fromkeys(requirements(), known)


@pytest.mark.parametrize("version", KNOWN + OLDER + NEWER)
def test_ansible_lets_in_what_the_check_may_let_in(version):
    runtime = yaml.safe_load((REPOSITORY / "meta/runtime.yml").read_text("utf-8"))
    assert SpecifierSet(runtime["requires_ansible"]).contains(Version(version).base_version) == (version not in OLDER)


def test_the_versions_that_are_said_to_be_tried_are_those_of_the_matrix():
    matrix = (REPOSITORY / "tests/matrix.sh").read_text("utf-8")
    pairs = re.search('^pythons="(.+?)"', matrix, re.MULTILINE)[1].split()
    assert tuple(pair.split("=")[0] for pair in pairs) == known_ansible.TRIED


# What the next Ansible may be like: another number, and nothing of what is private is where it was.
NEXT = """
import ansible.release, sys
ansible.release.__version__ = "2.23.0.dev0"
from ansible.cli import playbook
import ansible.executor.process.worker
sys.modules["ansible.utils.multiprocessing"] = None
playbook.main(sys.argv)
"""


def run_of_the_next(folder, *arguments, version=NEWER[0]):
    return subprocess.run(
        [sys.executable, "-c", NEXT.replace(NEWER[0], version), *arguments],
        env={
            **os.environ, "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / ".cache" / "collections"), "NO_COLOR": "1",
            "HOME": str(folder),
        },
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip


def test_a_playbook_under_an_older_ansible_ends_with_that_error_and_asks_no_host(tmp_path):
    inventory = fake_fleet.build(tmp_path, None)
    done = run_of_the_next(tmp_path, "-i", inventory, "berth.kvm.create", version=OLDER[-1])
    assert done.returncode and not list(tmp_path.rglob("asked.jsonl")), done.stdout + done.stderr
    assert done.stdout.count("AnsibleUnknown: this is ansible-core 2.18.9") == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr and "changed=1" not in done.stdout


def test_an_unknown_ansible_without_the_private_parts_stops_a_guest_and_says_that_it_is_slow(tmp_path):
    inventory = fake_fleet.build(tmp_path, None)
    done = run_of_the_next(tmp_path, "-i", inventory, "berth.kvm.stop", "--limit", "at-rest-h1:at-rest-h3")
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 0 and "at-rest-h1 stopped h1" in said and "at-rest-h3 stopped h3" in said, said[-4000:]
    assert "this is ansible-core 2.23.0.dev0" in said and "which is slow" in said
    asked = [json.loads(line) for line in (tmp_path / "h1" / "asked.jsonl").read_text().splitlines()]
    assert len({each["arguments"]["by"]["run"] for each in asked if "by" in each["arguments"]}) == 1
    assert not list(tmp_path.rglob("*.answer"))


def test_a_host_that_is_down_is_silent_under_an_unknown_ansible_too(tmp_path):
    inventory = fake_fleet.build(tmp_path, None, change=lambda tree: fake_fleet.down(tree, "h3"))
    done = run_of_the_next(tmp_path, "-i", inventory, "berth.kvm.stop", "--limit", "at-rest-h3")
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2 and "host h3 left out: UNREACHABLE" in said and "Traceback" not in said, said[-4000:]


def test_a_host_that_does_not_end_in_its_time_is_silent_under_an_unknown_ansible_too(tmp_path):
    inventory = fake_fleet.build(tmp_path, None)
    (tmp_path / "halts.json").write_text(json.dumps("host_facts"))
    done = run_of_the_next(tmp_path, "-i", inventory, "berth.kvm.host_facts", "-e", "berth_host_timeout=5")
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2 and "h1 UNREACHABLE: no answer in time" in said, said[-4000:]
