# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is released: versions agree, everything says since when it is there, the notes name what is new, nothing of the lab is packed."""

from __future__ import annotations

import ast
import fnmatch
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.berth.kvm.plugins.module_utils.model.collection_version import COLLECTION_VERSION

ROOT = Path(__file__).resolve().parents[2]
GALAXY = yaml.safe_load((ROOT / "galaxy.yml").read_text("utf-8"))
PLUGINS = [
    path for kind in ("modules", "filter", "inventory", "callback") for path in (ROOT / "plugins" / kind).glob("*.py")
]
ROLES = sorted((ROOT / "roles").glob("*/meta/argument_specs.yml"))
# The playbooks of 0.1.0; the notes of later versions name each new one.
FIRST = {
    "cold_migrate", "confirm_due", "confirm_resize", "create", "delete", "host_facts", "live_migrate", "place",
    "prep_resize", "prepare_hosts", "resize", "revert_resize", "start", "stop",
}  # fmt: skip
MAY_WAIT = 12  # fragments that the change log does not have yet, or has still
# What cannot run from the tarball: the lab, what uses it, what makes pages, tools.
NOT_PACKED = re.compile(
    r"(lab|tests|extensions|\.[^/]*)/|docs/.*\.py$|(Makefile|.*\.sh|pyproject\.toml|requirements-dev\.txt|\.[^/]*)$"
)


def documentation(path):
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "DOCUMENTATION":
            return yaml.safe_load(node.value.value)
    return {}


def public_playbooks():
    """Those that people run by name; no name from before 1.0."""
    found = (ROOT / "playbooks").glob("*.yml")
    return {path.stem for path in found if not path.read_text("utf-8").splitlines()[4].startswith("# Internal:")}


def notes():
    """The entries of all fragments for new playbooks."""
    found = []
    for path in (ROOT / "changelogs/fragments").glob("*.yml"):
        found += yaml.safe_load(path.read_text("utf-8")).get("add object.playbook", [])
    return {entry["name"] for entry in found}


def release():
    """What the notes say of this version."""
    entries = yaml.safe_load((ROOT / "changelogs/changelog.yaml").read_text("utf-8"))
    return entries["releases"][GALAXY["version"]]


def packed():
    """The files that ansible-galaxy packs: each of the repository that build_ignore does not name, nor one of its directories."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    ignored = GALAXY["build_ignore"]

    def is_ignored(name):
        parents = [name, *map(str, Path(name).parents)]
        return any(fnmatch.fnmatch(part, pattern) for part in parents for pattern in ignored)

    return [name for name in listed if not is_ignored(name)]


def test_the_version_is_the_same_everywhere():
    assert GALAXY["version"] == COLLECTION_VERSION
    assert "berth-kvm-%s.tar.gz" % COLLECTION_VERSION in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("path", PLUGINS, ids=[path.stem for path in PLUGINS])
def test_a_plugin_says_since_which_version_it_is_there(path):
    assert documentation(path).get("version_added") in ("0.1.0", "1.0.0")


@pytest.mark.parametrize("path", ROLES, ids=[path.parts[-3] for path in ROLES])
def test_a_role_says_since_which_version_it_is_there(path):
    specs = yaml.safe_load(path.read_text("utf-8"))["argument_specs"]["main"]
    assert specs.get("version_added") in ("0.1.0", "1.0.0")


def test_the_notes_name_each_new_playbook():
    """Under 'add object.playbook' in changelogs/fragments/1.0.0.yml. New modules are found by their version_added."""
    assert public_playbooks() - FIRST - notes() == set()
    assert notes() - public_playbooks() == set()


def test_the_group_for_module_defaults_has_every_module_and_action():
    """The internal ones, too: `module_defaults` of a play that imports a playbook reaches all of its tasks."""
    there = {path.stem for kind in ("modules", "action") for path in (ROOT / "plugins" / kind).glob("*.py")}
    group = yaml.safe_load((ROOT / "meta/runtime.yml").read_text("utf-8"))["action_groups"]["kvm"]
    assert group == sorted(there)


def test_the_change_log_has_each_new_playbook():
    told = {entry["name"] for entry in release()["objects"]["playbook"]}
    assert told == notes(), "run `make changelog` and commit what it writes"
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert [name for name in notes() if "* berth\\.kvm\\.%s" % name.replace("_", "\\_") not in text] == []


def test_few_fragments_wait_for_the_change_log():
    """A change brings its fragment alone; whoever merges runs `make changelog` now and then, and before a release."""
    fragments = {path.name for path in (ROOT / "changelogs/fragments").glob("*.yml")}
    waiting = fragments ^ set(release()["fragments"])
    assert len(waiting) <= MAY_WAIT, "run `make changelog` and commit what it writes. It is behind with: %s" % waiting


@pytest.mark.skipif(not shutil.which("antsibull-changelog"), reason="needs antsibull-changelog")
def test_an_entry_that_is_made_anew_has_what_came_later_and_keeps_its_date(tmp_path, monkeypatch):
    sys.path.insert(0, str(ROOT / "docs"))
    import make_changelog

    folder = tmp_path / "changelogs"
    (folder / "fragments").mkdir(parents=True)
    shutil.copy(ROOT / "galaxy.yml", tmp_path)
    shutil.copy(ROOT / "changelogs/config.yaml", folder)
    later = {"add object.playbook": [{"name": "later", "description": "Comes later", "namespace": None}]}
    (folder / "fragments/known.yml").write_text(yaml.safe_dump({"bugfixes": ["Something known."], **later}))
    entry = {"release_date": "2020-01-02", "fragments": ["known.yml"], "changes": {"bugfixes": ["Something known."]}}
    (folder / "changelog.yaml").write_text(
        yaml.safe_dump(
            {"ancestor": None, "releases": {"0.1.0": {"release_date": "2020-01-01"}, GALAXY["version"]: entry}}
        )
    )
    monkeypatch.setattr(make_changelog, "ROOT", tmp_path)
    assert make_changelog.main() == 0
    made = yaml.safe_load((folder / "changelog.yaml").read_text("utf-8"))["releases"]
    assert made["0.1.0"] == {"release_date": "2020-01-01"}
    assert made[GALAXY["version"]]["release_date"] == "2020-01-02"
    assert made[GALAXY["version"]]["changes"] == entry["changes"]
    assert [each["name"] for each in made[GALAXY["version"]]["objects"]["playbook"]] == ["later"]


def test_nothing_that_needs_the_repository_is_packed():
    assert [name for name in packed() if NOT_PACKED.match(name)] == []


def test_what_a_user_needs_is_packed():
    assert {"README.md", "SECURITY.md", "meta/runtime.yml", "requirements.txt", "bindep.txt", "docs/README.md"} <= set(
        packed()
    )


@pytest.mark.parametrize("link", ["repository", "documentation", "homepage", "issues"])
def test_galaxy_has_its_links(link):
    assert GALAXY[link].startswith("https://")
