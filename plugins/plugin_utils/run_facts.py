# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the actions of one run keep for each other as facts of localhost. A fact cache keeps these for later runs, too,
where nobody may act on them: each has the id of its run."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from . import acting

NAMES = ("berth_chosen", "berth_located", "berth_moves", "berth_plan", "berth_results")
RUN = "run"


def stamped(result: Dict[str, Any]) -> Dict[str, Any]:
    """The result of an action, with the id of this run in each of these facts that it has."""
    facts = result.get("ansible_facts") or {}
    own = {name: {**fact, RUN: acting.RUN} for name, fact in facts.items() if name in NAMES}
    return {**result, "ansible_facts": {**facts, **own}} if own else result


def of_this_run(fact: Any) -> Mapping[str, Any]:
    """The fact if an action of this run made it, else nothing."""
    return fact if isinstance(fact, Mapping) and fact.get(RUN) == acting.RUN else {}
