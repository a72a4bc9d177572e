# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The house rules that no reviewer should have to check: who imports whom, what runs where, what every file has."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins"
HEADER = "SPDX-License-Identifier" + ": GPL-3.0-or-later"

# What a compute file may take from placement: the arithmetic of a claim, so that host and scheduler count alike.
CLAIM_ARITHMETIC = {
    "module_utils/placement/%s.py" % name for name in ("capacity", "errors", "numa", "numa_usage", "pci", "requested")
}
PURE = {"module_utils/model", "module_utils/placement", "module_utils/conductor"}
CONTROLLER = PURE | {"module_utils/fleet"}

# Room -> the rooms (or single files) it may import from. A room that is not named here is an error.
MAY_IMPORT = {
    "module_utils/model": {"module_utils/model"},
    "module_utils/placement": {"module_utils/model", "module_utils/placement"},
    "module_utils/compute": {"module_utils/model", "module_utils/compute", *CLAIM_ARITHMETIC},
    "module_utils/conductor": PURE,
    "module_utils/fleet": {"module_utils/model", "module_utils/placement", "module_utils/fleet"},
    "plugin_utils": CONTROLLER | {"plugin_utils"},
    "action": CONTROLLER | {"plugin_utils"},
    "callback": CONTROLLER | {"plugin_utils"},
    "filter": CONTROLLER | {"plugin_utils"},
    "inventory": CONTROLLER | {"plugin_utils"},
    "modules": {"module_utils/model", "module_utils/compute"},
    "doc_fragments": set(),
}
# Beside the standard library: what each side may need to have installed.
CONTROLLER_PACKAGES = {"ansible", "cryptography", "jinja2", "jmespath", "netaddr", "yaml"}
SOLVER_DOOR = "module_utils/fleet/propose.py"  # says what to do where OR-tools is missing
METRICS_DOOR = "plugin_utils/fleet_metrics.py"  # the same of prometheus_client
HOST_PACKAGES = {"ansible"}
LIBVIRT = {"libvirt", "libvirt_qemu"}
LIBVIRT_DOOR = "module_utils/compute/connection.py"


def sources():
    """{path under plugins/: syntax tree} of every Python file of the collection."""
    return {
        path.relative_to(PLUGINS).as_posix(): ast.parse(path.read_text("utf-8"))
        for path in sorted(PLUGINS.rglob("*.py"))
    }


SOURCES = sources()


def room(name):
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] == "module_utils" else parts[0]


def own_file(parts):
    """The file under plugins/ that a dotted name means, or None."""
    name = "/".join(parts) + ".py"
    return name if name in SOURCES else None


def imports(name):
    """Yield (file of ours or None, top-level package or None, line) for every import of a file."""
    for node in ast.walk(SOURCES[name]):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield None, alias.name.split(".")[0], node.lineno
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield None, node.module.split(".")[0], node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = name.split("/")[: -node.level] + (node.module.split(".") if node.module else [])
            for alias in node.names:
                target = own_file([*base, alias.name]) or own_file(base)
                yield target or "/".join(base), None, node.lineno


def host_side():
    """The modules that do something on a host and every file they reach. Some modules only document an action."""
    todo = [
        name
        for name in SOURCES
        if name.startswith("modules/") and any(package == "ansible" for _file, package, _line in imports(name))
    ]
    seen = set()
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += [target for target, _package, _line in imports(name) if target in SOURCES]
    return sorted(seen)


def test_every_room_has_a_rule():
    assert {room(name) for name in SOURCES} <= set(MAY_IMPORT)


def test_imports_follow_the_directions():
    """model <- placement <- conductor <- actions; model and the claim's arithmetic <- compute <- modules."""
    wrong = []
    for name in SOURCES:
        for target, _package, line in imports(name):
            if target and not {room(target), target} & MAY_IMPORT[room(name)]:
                wrong.append("%s:%d imports %s" % (name, line, target))
    assert not wrong, "\n".join(wrong)


def test_imports_of_our_own_code_are_relative():
    """An absolute import would take another installed copy of the collection."""
    wrong = [
        "%s:%d" % (name, line)
        for name in SOURCES
        for _file, package, line in imports(name)
        if package == "ansible_collections"
    ]
    assert not wrong, wrong


def test_the_core_knows_nothing_of_ansible():
    wrong = [
        "%s:%d" % (name, line)
        for name in SOURCES
        if name.startswith("module_utils/")
        for _file, package, line in imports(name)
        if package == "ansible"
    ]
    assert not wrong, wrong


def test_text_reaches_the_terminal_by_one_door():
    """A host's words are made harmless there; a second door would be forgotten. Nothing else prints or has Ansible's display."""
    door, wrong = "plugin_utils/screen.py", []
    for name in SOURCES:
        for node in ast.walk(SOURCES[name]):
            imported = isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ansible.utils.display")
            own = isinstance(node, ast.Attribute) and node.attr in ("display", "_display") and name != door
            printed = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
            if name != door and (imported or own or printed):
                wrong.append("%s:%d" % (name, node.lineno))
    assert not wrong, wrong


def test_libvirt_comes_in_by_one_door():
    """The controller needs no libvirt binding, and a host without it gets a typed error instead of a traceback."""
    users = {name for name in SOURCES for _file, package, _line in imports(name) if package in LIBVIRT}
    assert users <= {LIBVIRT_DOOR}


def test_only_known_packages_are_needed():
    on_host = set(host_side())
    wrong = []
    for name in SOURCES:
        known = (HOST_PACKAGES if name in on_host else CONTROLLER_PACKAGES) | LIBVIRT
        known |= {"ortools"} if name == SOLVER_DOOR else set()
        known |= {"prometheus_client"} if name == METRICS_DOOR else set()
        wrong += [
            "%s:%d needs %s" % (name, line, package)
            for _file, package, line in imports(name)
            if package and package not in sys.stdlib_module_names and package not in known
        ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", host_side())
def test_host_side_code_is_python_3_9(name):
    """Debian 11 and RHEL 9 run 3.9. Newer names are found by ansible-test's import test on that version."""
    text = (PLUGINS / name).read_text("utf-8")
    ast.parse(text, feature_version=(3, 9))
    for node in ast.walk(SOURCES[name]):
        assert not isinstance(node, getattr(ast, "Match", ())), "match statement in line %d" % node.lineno
        if isinstance(node, ast.Call):
            function = getattr(node.func, "id", getattr(node.func, "attr", None))
            newer = {"zip": {"strict"}, "dataclass": {"slots", "kw_only"}}.get(function, set())
            assert not newer & {keyword.arg for keyword in node.keywords}, "line %d" % node.lineno


def test_every_plugin_file_has_the_future_import():
    """Annotations stay text, so that newer ones do no harm on an old host."""
    wrong = [
        name
        for name, tree in SOURCES.items()
        if tree.body and not any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    ]
    assert not wrong, wrong


def test_there_are_no_package_files():
    """Neither Ansible nor Python needs them, and code in one would run with every import below it."""
    assert [name for name in SOURCES if name.endswith("__init__.py")] == []


def text_files():
    """Every Python, YAML and shell file of the checkout, without what tools leave behind."""
    skipped = {".cache", ".venv", ".git", ".bench", ".ansible", "output", "changelog.yaml"}
    for path in sorted(ROOT.rglob("*")):
        if path.is_file() and not skipped & set(path.relative_to(ROOT).parts) and not path.is_symlink():
            if path.suffix in {".py", ".yml", ".yaml", ".sh", ".c", ".toml"}:
                yield path


def test_every_source_file_names_its_licence():
    wrong = []
    for path in text_files():
        head = path.read_text("utf-8")[:600]
        if head.strip() and HEADER not in head:
            wrong.append(str(path.relative_to(ROOT)))
    assert not wrong, wrong


def test_the_product_does_not_know_the_lab():
    """The same playbooks must work on real hosts."""
    wrong = []
    for folder in ("plugins", "roles", "playbooks"):
        for path in sorted((ROOT / folder).rglob("*")):
            if (
                path.is_file()
                and path.suffix != ".pyc"
                and re.search(r"\blab\b", path.read_text("utf-8"), re.IGNORECASE)
            ):
                wrong.append(str(path.relative_to(ROOT)))
    assert not wrong, wrong


@pytest.mark.parametrize(
    "name", [name for name in SOURCES if name.startswith(("modules/", "action/", "inventory/", "callback/"))]
)
def test_every_plugin_is_documented(name):
    """An action is documented by the module file of its name."""
    documented = name.replace("action/", "modules/", 1)
    assert documented in SOURCES, "%s has no %s" % (name, documented)
    blocks = {
        node.targets[0].id
        for node in SOURCES[documented].body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    wanted = {"DOCUMENTATION", "EXAMPLES"} | ({"RETURN"} if documented.startswith("modules/") else set())
    assert wanted <= blocks


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in SOURCES
        if name.startswith(("module_utils/placement/filters/", "module_utils/placement/weighers/"))
    ],
)
def test_every_filter_and_weigher_says_its_rule(name):
    for node in SOURCES[name].body:
        if isinstance(node, ast.ClassDef):
            assert ast.get_docstring(node) or ast.get_docstring(SOURCES[name]), node.name


ROLES = sorted(path.name for path in (ROOT / "roles").iterdir() if path.is_dir())


@pytest.mark.parametrize("role", ROLES)
def test_every_role_variable_is_specified_and_explained(role):
    """What defaults/ offers is in the argument specs, and what those name is in the README's table."""
    folder = ROOT / "roles" / role
    specs = yaml.safe_load((folder / "meta" / "argument_specs.yml").read_text("utf-8"))["argument_specs"]
    options = {name for spec in specs.values() for name in spec.get("options", {})}
    defaults_file = folder / "defaults" / "main.yml"
    defaults = set(yaml.safe_load(defaults_file.read_text("utf-8")) or {}) if defaults_file.exists() else set()
    public = {name for name in defaults if not name.startswith("__")}
    assert public <= options, "in defaults/ only: %s" % sorted(public - options)
    readme = (folder / "README.md").read_text("utf-8")
    assert not {name for name in options if name not in readme}, "not in README.md"
    assert (folder / "meta" / "main.yml").exists()


LONGEST_FUNCTION = 50


def lines(node):
    return node.end_lineno - node.lineno + 1


def test_functions_are_short():
    """Those of tests, pages and lab too. A file is as long as its one idea: what changes together lies together."""
    wrong = []
    for path in text_files():
        if path.suffix != ".py":
            continue
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and lines(node) > LONGEST_FUNCTION:
                wrong.append("%s: %s has %d lines" % (name, node.name, lines(node)))
    assert not wrong, "\n".join(wrong)
