# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The house rules on what comes back from hosts: there is one door, and behind it only what a schema names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

from ansible_collections.berth.kvm.plugins.module_utils.model import reply_shapes
from ansible_collections.berth.kvm.plugins.module_utils.model.reply_shapes import REPLIES
from ansible_collections.berth.kvm.plugins.plugin_utils.host_reply import HostAction
from ansible_collections.berth.kvm.plugins.plugin_utils.named_instances import NamedAction

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins"
DOOR = "plugin_utils/host_reply.py"
# What else talks to a host, and why its words do no harm: only numbers are read from what watch brings
# (conductor/progress.py), and run_on runs actions, whose replies have gone through the door.
OTHERS = {
    "_low_level_execute_command": {"action/migration.py"},
    "run_on": {"plugin_utils/fan_out.py", "plugin_utils/known_ansible.py"},
}
ALLOWED = {
    "_execute_module": {DOOR},
    "action_loader": {DOOR},
    "_connection": {DOOR, "action/migration.py"},
    **OTHERS,
}
# What playbooks and roles may use of Ansible's own: it works in the controller, on what the controller knows.
OF_THE_CONTROLLER = {
    "add_host", "debug", "fail", "import_playbook", "import_role", "import_tasks", "include_role", "include_tasks", "meta",
    "set_fact",
}  # fmt: skip
BUILTIN = "ansible.builtin."


def on_hosts():
    """The modules that run on hosts: those that are more than the documentation of an action."""
    return sorted(
        path.stem for path in (PLUGINS / "modules").glob("*.py") if "import AnsibleModule" in path.read_text("utf-8")
    )


def names_used(path):
    tree = ast.parse(path.read_text("utf-8"))
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    used |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return used - defined


def test_one_place_alone_takes_replies_from_hosts():
    wrong = [
        "%s uses %s" % (path.relative_to(PLUGINS), name)
        for folder in ("action", "plugin_utils", "filter", "inventory")
        for path in sorted((PLUGINS / folder).glob("*.py"))
        for name in sorted(names_used(path) & set(ALLOWED))
        if path.relative_to(PLUGINS).as_posix() not in ALLOWED[name]
    ]
    assert not wrong, "\n".join(wrong)


def test_no_action_is_one_of_ansible_that_passes_replies_on():
    wrong = [
        path.name
        for path in sorted((PLUGINS / "action").glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and re.match(r"ansible\.plugins\.action\.", node.module or "")
    ]
    assert not wrong, wrong


def action_of_module(module):
    """Its own, or that which meta/runtime.yml gives it."""
    routes = yaml.safe_load((ROOT / "meta/runtime.yml").read_text("utf-8"))["plugin_routing"]["modules"]
    own = PLUGINS / "action" / (module + ".py")
    assert own.exists() != (module in routes)
    name = routes[module]["action_plugin"].removeprefix("berth.kvm.") if module in routes else module
    return (PLUGINS / "action" / (name + ".py")).read_text("utf-8")


@pytest.mark.parametrize("module", on_hosts())
def test_every_module_that_runs_on_hosts_has_a_schema_and_an_action_that_applies_it(module):
    assert module in REPLIES
    text = action_of_module(module)
    named = "from ..plugin_utils.named_instances import NamedAction" in text and issubclass(NamedAction, HostAction)
    assert named or "from ..plugin_utils.host_reply import HostAction" in text


def test_there_is_no_schema_without_a_module():
    ours = {name for name in REPLIES if name not in ("package", "reboot", "service", "systemd_service", "wait_for")}
    assert ours == set(on_hosts())


@pytest.mark.parametrize("module", on_hosts())
def test_every_key_of_a_schema_is_documented(module):
    source = ast.parse((PLUGINS / "modules" / (module + ".py")).read_text("utf-8"))
    blocks = {node.targets[0].id: node.value for node in source.body if isinstance(node, ast.Assign)}
    documented = set(yaml.safe_load(blocks["RETURN"].value))
    assert set(REPLIES[module].fields) - {"diff"} <= documented


def keys_that_steps_write():
    """What the steps of a move write into the migration part of a record, and what they say of the record."""
    written, told = set(), set()
    for path in (PLUGINS / "module_utils").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "moved":
                written |= {keyword.arg for keyword in node.keywords}
            if isinstance(node, ast.FunctionDef) and node.name in ("new_migration", "view_of"):
                returned = next(entry.value for entry in ast.walk(node) if isinstance(entry, ast.Return))
                keys = {key.value for key in returned.keys}
                written, told = (written | keys, told) if node.name == "new_migration" else (written, told | keys)
    return written, told


def test_every_key_that_the_steps_of_a_move_write_is_in_the_schema_of_what_they_say():
    """What is not would be lost between the hosts."""
    written, told = keys_that_steps_write()
    assert len(written) > 15 and len(told) > 15
    assert written <= set(reply_shapes._OF_MIGRATION)
    assert told <= set(reply_shapes._VIEW)


# ---- playbooks and roles ---------------------------------------------------------------------------------------------


def files():
    return sorted(
        [*ROOT.glob("playbooks/*.yml"), *ROOT.glob("playbooks/internal/*.yml"), *(ROOT / "roles").glob("*/tasks/*.yml")]
    )


def tasks_of(items):
    """Every task of a file, those in blocks too."""
    for item in items or ():
        for part in ("tasks", "block", "rescue", "always", "pre_tasks", "post_tasks"):
            yield from tasks_of(item.get(part))
        yield item


def action_of(task):
    return next((key for key in task if key.startswith((BUILTIN, "berth.kvm."))), None)


def every_task():
    for path in files():
        for task in tasks_of(yaml.safe_load(path.read_text("utf-8"))):
            yield path, task


def test_playbooks_and_roles_run_no_module_of_ansible_on_hosts():
    """Such a module's reply could set any variable; host_task runs those that are needed."""
    wrong = [
        "%s: %s" % (path.relative_to(ROOT), task.get("name"))
        for path, task in every_task()
        if (action_of(task) or "").startswith(BUILTIN)
        and action_of(task).removeprefix(BUILTIN) not in OF_THE_CONTROLLER
    ]
    assert not wrong, "\n".join(wrong)


def test_no_play_gathers_facts():
    plays = [play for path in files() if path.parent.name == "playbooks" for play in yaml.safe_load(path.read_text())]
    hosts = [play for play in plays if "hosts" in play]
    assert hosts and all(play.get("gather_facts") is False for play in hosts)


def registered():
    """register name -> the modules whose replies it may have."""
    found = {}
    for _path, task in every_task():
        action = action_of(task)
        if "register" in task and action:
            module = action.removeprefix("berth.kvm.")
            module = task[action]["module"] if module == "host_task" else module
            found.setdefault(task["register"], set()).add(module)
    return found


def test_what_playbooks_and_roles_read_of_a_reply_is_in_its_schema():
    text = "\n".join(
        path.read_text("utf-8") for folder in ("playbooks", "roles") for path in sorted((ROOT / folder).rglob("*.yml"))
    )
    known = {"changed", "failed", "answers", "results"}  # the last is a loop's
    wrong = [
        "%s.%s" % (name, key)
        for name, modules in registered().items()
        for key in re.findall(r"\b%s\.([a-z_]+)" % name, text)
        for module in modules
        if module in REPLIES and key not in REPLIES[module].fields and key not in known
    ]
    assert not wrong, wrong
