#!/usr/bin/env python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/placement/, docs/catalog.md, docs/guest-features.md and docs/lifecycle.md; placement_pages.py and the like say from what.

docs/generate.py            writes the pages and takes away those of filters that are gone
docs/generate.py --check    changes nothing; exit status 1 where a page is not what would be written
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "docs"), str(ROOT / ".cache" / "collections")]

from catalog_page import catalog_page  # noqa: E402
from guest_features_page import features_page  # noqa: E402
from placement_pages import filter_page, index, options_page, weigher_page  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.model import lifecycle, vm_states  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.placement import registry  # noqa: E402

PAGES = ROOT / "docs" / "placement"


def main(argv):
    pages = every_page()
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    gone = [path for path in PAGES.rglob("*.md") if path not in pages]
    for path in stale + gone:
        print("%s %s" % ("gone:" if path in gone else "stale:", path.relative_to(ROOT)))
    if "--check" in argv:
        return 1 if stale or gone else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pages[path], encoding="utf-8")
    for path in gone:
        path.unlink()
    return 0


def every_page():
    """{path: text} of all pages."""
    filters, weighers = registry.builtin("filters"), registry.builtin("weighers")
    pages = {PAGES / "filters" / (name + ".md"): filter_page(one) for name, one in filters.items()}
    pages.update({PAGES / "weighers" / (name + ".md"): weigher_page(one) for name, one in weighers.items()})
    pages[PAGES / "README.md"] = index(filters, weighers)
    pages[PAGES / "options.md"] = options_page(filters, weighers)
    pages[ROOT / "docs" / "catalog.md"] = catalog_page()
    pages[ROOT / "docs" / "lifecycle.md"] = lifecycle_page()
    pages[ROOT / "docs" / "guest-features.md"] = features_page()
    return pages


def lifecycle_page():
    """The states of a record as a table and as a diagram, from model/lifecycle.py."""
    lines = [
        "<!-- Written by docs/generate.py from plugins/module_utils/model/lifecycle.py and vm_states.py. -->",
        "# The life of an instance's record",
        "",
        "Each host keeps a record for each instance that it holds, claims, receives or has given up. Its state is its role and",
        "its phase. The record store refuses every change that is not in this diagram. Only the role OWN may run the guest.",
        "A record may be written again in the same state. An arrow to the end means that the record is removed. Every state of",
        "a move has such an arrow, because the move may have ended without this host, which was declared lost.",
        "",
        "```mermaid",
        "stateDiagram-v2",
    ]
    lines += ["    [*] --> %s_%s" % state for state in sorted(lifecycle.FIRST)]
    for state, stage in lifecycle.STAGES.items():
        for after in sorted(one for one in stage.after if one and one != state):
            lines.append("    %s_%s --> %s_%s" % (*state, *after))
        if None in stage.after:
            lines.append("    %s_%s --> [*]" % state)
    lines += [
        "```",
        "",
        "Nova's names are vm_state, task_state and the status of the migration; `-` is none, `as before` the one before the move.",
        "",
        "| role | phase | what it means | resize, cold migration | live migration |",
        "| --- | --- | --- | --- | --- |",
    ]
    for (role, phase), stage in lifecycle.STAGES.items():
        names = [", ".join(_named(one)) if one else "" for one in (stage.cold, stage.live)]
        lines.append("| %s | `%s` | %s | %s | %s |" % (role, phase, stage.means, *names))
    return "\n".join([*lines, *states_of_instances()]) + "\n"


def states_of_instances():
    """The states of an instance and what is legal in each, from model/vm_states.py."""
    lines = [
        "",
        "## The states of an instance",
        "",
        "The record of an instance that does not move has Nova's vm_state and the power_state that goes with it: what is wished.",
        "libvirt has what is. Operations that are legal in every state are left out. Each may be run again in the state that it",
        "leads to.",
        "",
        "| vm_state | power_state | operations | `start_after_outage` after a power cut | what makes it active | findings of the doctor |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, state in vm_states.VM_STATES.items():
        legal = [
            each for each, change in vm_states.CHANGES.items() if name in change.legal and change.legal != vm_states.ALL
        ]
        power = (state.power_state or "as before") + (", with saved memory" if state.memory else "")
        found = ", ".join("%s: `%s`" % entry for entry in state.findings.items())
        recovered = "starts the guest" if state.recovered else "leaves it"
        lines.append(
            "| `%s` | %s | %s | %s | %s | %s |" % (name, power, ", ".join(legal), recovered, state.back or "", found)
        )
    return lines


def _named(names):
    vm_state, task_state, status = names
    return (vm_state or "as before", task_state or "-", status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
