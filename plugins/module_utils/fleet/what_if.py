# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet as it would be with more hosts."""

from __future__ import annotations

import dataclasses
from typing import Any, Sequence

from ..model.host_state import HostState
from ..placement.changes.would_fit import leave
from .state import Fleet


def with_more(fleet: Fleet, like: Sequence[str]) -> Fleet:
    """The fleet with one more host like each of ``like``, empty and open, in the same aggregates."""
    documents, aggregates = dict[str, Any](fleet.documents), [dict(each) for each in fleet.aggregates]
    for number, model in enumerate(like, 1):
        document, name = fleet.documents[model], "%s again, %d" % (model, number)
        service = {**(document.get("service") or {}), "disabled": False}
        made = HostState.from_document({**document, "host": name, "node": name, "uuid": name, "service": service})
        for instance in list(made.instances.values()):
            leave(made, instance)
        documents[name] = made
        for each in aggregates:
            each["hosts"] = [*each["hosts"], *([name] if model in each["hosts"] else [])]
    return dataclasses.replace(fleet, documents=documents, aggregates=aggregates)
