#!/usr/bin/env python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/errors.md from the error classes themselves; ``--print`` shows it instead."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "plugins" / "module_utils"
PAGE = ROOT / "docs" / "errors.md"
BASE = "BerthError"

HEAD = """<!--
Copyright: (c) 2026, The berth.kvm authors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
Made by docs/make_errors.py from the code: change it there.
-->

# Errors

Every failure of a module or action of this collection has, beside `msg`:

| key | meaning |
|---|---|
| `error_code` | one of the codes below; they do not change |
| `retryable` | whether the same request may succeed on another host; the `create` playbook then tries the next alternate |
| `error` | the same as data: `code`, `message`, `retryable`, and where they apply `field`, `value`, `rule`, `hint` and further details |

Names are those of OpenStack Nova where Nova has one. "may" in the second column: it depends on the cause, see `retryable`.

| code | another host may help | meaning |
|---|---|---|
"""


def classes():
    """{file: {class name: (names of its bases, node)}} of the pure core."""
    found = {}
    for path in sorted(CORE.rglob("*.py")):
        nodes = [node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.ClassDef)]
        found[path] = {
            node.name: ([base.id for base in node.bases if isinstance(base, ast.Name)], node) for node in nodes
        }
    return found


def errors():
    """Yield (code, class node, {class name: node} of all classes) for every public error."""
    found = classes()
    everything = {name: entry for members in found.values() for name, entry in members.items()}

    def is_error(name):
        return name == BASE or any(is_error(base) for base in everything.get(name, ([], None))[0])

    for members in found.values():
        for name, (_bases, node) in members.items():
            if name != BASE and not name.startswith("_") and is_error(name):
                files = [path.name for path, others in found.items() if name in others]
                if len(files) > 1:
                    raise ValueError("a code means one thing: %s is a class in %s" % (name, " and ".join(files)))
                yield name, node, everything


def retryable(node, everything):
    """'yes', 'no', or 'may' where it is decided for each error."""
    for statement in ast.walk(node):
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Attribute) and target.attr == "retryable":
                    return "may"
    for statement in node.body:
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", None) == "retryable":
            return "yes" if getattr(statement.value, "value", None) is True else "no"
        if isinstance(statement, ast.FunctionDef) and statement.name == "retryable":
            return "may"
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in everything and base.id != BASE:
            return retryable(everything[base.id][1], everything)
    return "no"


def meaning(node):
    """The first paragraph of the docstring, on one line."""
    text = (ast.get_docstring(node) or "").split("\n\n")[0]
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")


def page():
    lines = [
        "| `%s` | %s | %s |\n" % (code, retryable(node, everything), meaning(node))
        for code, node, everything in errors()
    ]
    return HEAD + "".join(sorted(lines))


if __name__ == "__main__":
    if "--print" in sys.argv[1:]:
        sys.stdout.write(page())
    else:
        PAGE.write_text(page(), encoding="utf-8")
