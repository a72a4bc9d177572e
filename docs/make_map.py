#!/usr/bin/env python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/code-map.md: what each file of the collection is about, in the words that the file itself begins with.

docs/make_map.py            writes the page
docs/make_map.py --check    changes nothing; exit status 1 where the page is not what would be written
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent))

from playbook_headers import read_header  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "code-map.md"
NOTE = "Made by docs/make_map.py from the files: change it there."
INTRODUCTION = """# Where a rule is in the code

One line for each file: the first words of the file itself. [Architecture](architecture.md) says how the rooms
stand to each other. Filters and weighers have [pages of their own](placement/README.md).
"""
# room -> files below the root, and what it is for
ROOMS = {
    "Playbooks: what people run": ["playbooks/*.yml", "playbooks/tasks/*.yml", "playbooks/vars/*.yml"],
    "Roles": ["roles/*/tasks/*.yml"],
    "Modules": ["plugins/modules/*.py"],
    "The edge to Ansible, in the controller": [
        "plugins/plugin_utils/*.py",
        "plugins/inventory/*.py",
        "plugins/callback/*.py",
        "plugins/filter/*.py",
    ],
    "Values and their checks": ["plugins/module_utils/model/*.py"],
    "Placement, in the controller": [
        "plugins/module_utils/placement/*.py",
        "plugins/module_utils/placement/changes/*.py",
        "plugins/module_utils/placement/fast/*.py",
    ],
    "The conductor: what is done next, over all hosts": ["plugins/module_utils/conductor/*.py"],
    "On the host": ["plugins/module_utils/compute/*.py"],
    "On the host: records": ["plugins/module_utils/compute/record/*.py"],
    "On the host: guests": ["plugins/module_utils/compute/guest/*.py"],
    "On the host: disks and images": ["plugins/module_utils/compute/disk/*.py"],
    "On the host: facts and set-up": ["plugins/module_utils/compute/host/*.py"],
    "On the host: moves": ["plugins/module_utils/compute/move/*.py", "plugins/module_utils/compute/move/steps/*.py"],
}


def about(path: Path) -> str:
    """The first words of a file: its comment or first task, the paragraph it begins with, its short description for ansible-doc."""
    text = path.read_text("utf-8")
    if path.suffix == ".yml":
        task = re.search(r"^- name: (.*)$", text, re.MULTILINE)
        return read_header(path).text or (task.group(1) + "." if task else "")
    tree = ast.parse(text)
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "DOCUMENTATION":
            document = yaml.safe_load(ast.literal_eval(node.value))
            return document["short_description"].rstrip(".") + "."
    return " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split())


def page() -> str:
    header = "\n".join(line.lstrip("# ") for line in Path(__file__).read_text("utf-8").splitlines()[1:4])
    parts = ["<!--\n%s\n%s\n-->\n" % (header, NOTE), INTRODUCTION]
    for room, patterns in ROOMS.items():
        files = [path for pattern in patterns for path in sorted(ROOT.glob(pattern)) if path.name != "__init__.py"]
        parts.append("## %s\n\n| file | what it is about |\n|---|---|" % room)
        parts += ["| `%s` | %s |" % (shown(path), about(path).replace("|", "\\|")) for path in files]
        parts[-1] += "\n"
    return "\n".join(parts).rstrip("\n") + "\n"


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix().replace("plugins/module_utils/", "")


def main() -> int:
    if "--check" not in sys.argv:
        PAGE.write_text(page(), "utf-8")
        return 0
    fresh = PAGE.exists() and PAGE.read_text("utf-8") == page()
    print("" if fresh else "%s is old: run docs/make_map.py" % PAGE.name)
    return 0 if fresh else 1


if __name__ == "__main__":
    sys.exit(main())
