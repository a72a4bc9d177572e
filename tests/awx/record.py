#!/usr/bin/env python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records which options the modules of awx.awx have that examples/awx/controller.yml uses: tests/vectors/awx_options.json.

tests/awx/record.py DIRECTORY    of the collection awx.awx, such as in the wheel of the package "ansible"
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import yaml

OUT = Path(__file__).resolve().parents[1] / "vectors" / "awx_options.json"
MODULES = (
    "credential", "execution_environment", "inventory", "inventory_source", "job_template", "project", "schedule",
    "workflow_job_template",
)  # fmt: skip


def main(directory: str) -> None:
    version = json.loads((Path(directory) / "MANIFEST.json").read_text("utf-8"))["collection_info"]["version"]
    modules = {name: options(documentation(Path(directory) / "plugins/modules" / (name + ".py"))) for name in MODULES}
    OUT.write_text(json.dumps({"awx.awx": version, "modules": modules}, indent=1, sort_keys=True) + "\n", "utf-8")


def documentation(path: Path) -> dict:
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "DOCUMENTATION":
            return yaml.safe_load(node.value.value)["options"]
    raise SystemExit("%s has no documentation" % path)


def options(given: dict) -> dict:
    """Option -> what can be checked of it, also of the options below it."""
    found = {}
    for name, spec in given.items():
        kept = {key: spec[key] for key in ("choices", "type", "required") if key in spec}
        if "suboptions" in spec:
            kept["suboptions"] = options(spec["suboptions"])
        for word in (name, *spec.get("aliases", ())):
            found[word] = kept
    return found


if __name__ == "__main__":
    main(sys.argv[1])
