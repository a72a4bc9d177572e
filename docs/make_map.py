#!/usr/bin/env python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/code-map.md: what each file of the code is about, in the words that the file itself begins with.

docs/make_map.py            writes the page
docs/make_map.py --check    changes nothing; exit status 1 where the page is not what would be written
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "code-map.md"
NOTE = "Made by docs/make_map.py from the files: change it there."
INTRODUCTION = """# Where a rule is in the code

What is in which room, and where a change is made. After that, one line for each file of the code: what it begins with.
[Architecture](architecture.md) says how the rooms stand to each other, [playbooks](playbooks.md) describes the
playbooks, `ansible-doc` the modules and roles, and filters and weighers have [pages of their own](placement/README.md).
Files whose names begin with a room are below `plugins/module_utils/`.

## Where a change is made

| you change | look at |
|---|---|
| a variable of the catalog | `model/catalog_schema.py` |
| a variable of a run | `plugins/plugin_utils/variables.py` |
| a setting of a host | `roles/kvm_host/meta/argument_specs.yml`, `model/host_settings.py` |
| what an error tells people to do | the module in `model/` whose name ends in `hints.py` |
| what a host reports | `compute/host/facts.py`, and its check in `model/host_document.py` |
| where instances are placed | `placement/filters/`, `placement/weighers/`, `placement/capacity.py` |
| the guest's definition in libvirt | `compute/guest/domain_xml.py` |
| the guest's host name, and the rest of what cloud-init gets | `model/cloud_init.py` |
| the bridge and the addresses of a NIC | `model/networks.py`, in the guest's definition `compute/guest/domain_xml.py` |
| an address from a network's pool | `model/address_pool.py`, who has which `conductor/addressing.py` |
| the rules of security groups | `model/security_groups.py`, the filter made of them `compute/guest/packet_filter.py` |
| the order of an operation | `conductor/procedures/` |
| the steps of a move | `conductor/sequences.py` for their order, `compute/move/steps/` for each |
| the states of a record | `model/lifecycle.py` |
| what doctor finds | `compute/host/doctor.py` on a host, `conductor/doctor.py` over all |
| with which status doctor ends | `playbooks/tasks/doctor.yml` |
| what the report shows | `conductor/fleet_report.py` for its content, `plugins/plugin_utils/report_page.py` for the page |
| the table that ends a run | `conductor/closing_table.py`, `conductor/outcome_of_create.py`, `conductor/outcome_of_move.py` |
| which host owns an instance | `conductor/notes.py`, `conductor/gossip.py` |
| which host is closed, silent or lost | `conductor/silence.py` |
| whether a plan for the fleet is outdated | `fleet/plan_file.py` |
| how an instance differs from the inventory | `conductor/drift.py` |
| MAC addresses and NICs | `model/nics.py`; who else has an address: `model/address_clash.py` |
| what fits on a host: amounts, NUMA, PCI devices | `placement/capacity.py`, for placement and the claim alike |
"""
# room -> files below the root, and what it is for
ROOMS = {
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
    "Plans for a whole fleet": ["plugins/module_utils/fleet/*.py"],
    "On the host": ["plugins/module_utils/compute/*.py"],
    "On the host: records": ["plugins/module_utils/compute/record/*.py"],
    "On the host: guests": ["plugins/module_utils/compute/guest/*.py"],
    "On the host: disks and images": ["plugins/module_utils/compute/disk/*.py"],
    "On the host: facts and set-up": ["plugins/module_utils/compute/host/*.py"],
    "On the host: backups": ["plugins/module_utils/compute/backup/*.py"],
    "On the host: moves": ["plugins/module_utils/compute/move/*.py", "plugins/module_utils/compute/move/steps/*.py"],
}


def about(path: Path) -> str:
    """The first statement of a file: what it begins with, up to its first full stop, colon or semicolon, without what is in
    brackets."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "DOCUMENTATION":
            return yaml.safe_load(ast.literal_eval(node.value))["short_description"].rstrip(".")
    words = re.sub(r" \([^()]*\)", "", " ".join((ast.get_docstring(tree) or "").split()))
    said = re.match(r"(?:\S+ ){2,}?\S+(?=[.:;](?: |$))|.*", words)
    return said.group().rstrip(".") if said else ""


def page() -> str:
    header = "\n".join(line.lstrip("# ") for line in Path(__file__).read_text("utf-8").splitlines()[1:4])
    parts = ["<!--\n%s\n%s\n-->\n" % (header, NOTE), INTRODUCTION]
    for room, patterns in ROOMS.items():
        files = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
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
