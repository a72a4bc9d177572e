# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The quick start: its inventory is valid, and what it runs is there."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import yaml

from ansible_collections.berth.kvm.plugins.module_utils.model.catalog import Catalog
from ansible_collections.berth.kvm.plugins.module_utils.placement.request import build_request

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text("utf-8")
sys.path.insert(0, str(ROOT / "tests" / "walk"))
page = importlib.import_module("page")


def test_the_inventory_of_the_quick_start_makes_valid_requests():
    fleet = yaml.safe_load(re.search(r"```yaml\n(.*?)```", README, re.DOTALL).group(1))["all"]
    catalog = Catalog.from_variables(fleet["vars"])
    web = fleet["children"]["web"]
    key = {"berth_ssh_keys": ["ssh-ed25519 AAAA"]}  # which a lookup reads
    for name in web["hosts"]:
        spec = build_request({**web["vars"], **key, "inventory_hostname": name}, catalog)[0]
        assert (spec["group"]["name"], len(spec["networks"])) == ("web", 1)
    assert "large" in catalog.flavors


def test_the_inventory_of_the_quick_start_reaches_the_hosts_as_the_pages_advise():
    """docs/scaling.md and docs/architecture.md send people to these lines."""
    settings = yaml.safe_load(re.search(r"```yaml\n(.*?)```", README, re.DOTALL).group(1))["all"]["children"][
        "kvm_hosts"
    ]["vars"]
    assert settings["ansible_pipelining"] is True
    assert {"ConnectTimeout", "ServerAliveInterval"} <= set(
        re.findall(r"\w+(?==)", settings["ansible_ssh_common_args"])
    )


def test_every_playbook_that_is_named_exists():
    named = set(re.findall(r"berth\.kvm\.([a-z_]+)", README))
    assert {"create", "resize", "delete"} <= named
    plugins = {path.stem for path in (ROOT / "plugins" / "inventory").glob("*.py")}
    assert not {name for name in named - plugins if not (ROOT / "playbooks" / (name + ".yml")).exists()}


def test_every_page_is_in_the_list_of_pages():
    listed = (ROOT / "docs" / "README.md").read_text("utf-8")
    pages = [page.name for page in (ROOT / "docs").glob("*.md") if page.name != "README.md"]
    assert not [page for page in pages if "(%s)" % page not in listed]


def test_the_page_of_tasks_has_every_playbook():
    page = (ROOT / "docs" / "i-want-to.md").read_text("utf-8")
    public = set(re.findall(r"^## ([a-z_]+)$", (ROOT / "docs" / "playbooks.md").read_text("utf-8"), re.MULTILINE))
    assert len(public) > 30
    assert public - set(re.findall(r"berth\.kvm\.([a-z_]+)", page)) == set()


def test_the_walk_finds_the_files_and_commands_of_the_page_in_their_order():
    """tests/walk runs them: `make walk`."""
    found = [name or text.split()[0] for name, text in page.steps(README)]
    names = ["pip", "ansible-galaxy", "fleet.yml", "found.berth.yml", "ansible-playbook", "ansible", "ssh"]
    assert [name for name in dict.fromkeys(found) if name in names] == names


def test_the_walk_types_what_the_page_says_and_tells_the_time_of_each(tmp_path):
    script = page.script([("file", "one\n"), (None, "cat file # why"), (None, 'read typed; echo "$typed"')])
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    took = page.times(done.stdout.decode())
    assert [(command, said.strip()) for command, _seconds, said in took] == [
        ("cat file # why", "one"),
        ('read typed; echo "$typed"', page.TYPED),
    ]
