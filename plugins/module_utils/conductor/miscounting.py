# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that says far more owners of an instance than all others have heard of is left out, with all that it says.

The next owner counts on from the highest epoch that any host says, and no reply may have one beyond record.MOST: after a
lie of that size the replies of an honest host would be refused. No fleet gives an instance a million owners unheard.
"""

from __future__ import annotations

from typing import Dict, Iterator, Mapping, Tuple

from ..model import state_hints
from ..model.messages import Document, Note
from ..model.record import EpochImplausible

LEAP = 1 << 20  # owners of an instance of which one host alone may have heard
NEVER = (0, 0)


def verdicts(documents: Mapping[str, Document], notes: Mapping[str, Mapping[str, Note]]) -> Dict[str, str]:
    """Host name -> why it is left out. ``documents``: by host name; ``notes``: host uuid -> {instance uuid: what it remembers}."""
    said = {name: (document, notes.get(document["uuid"], {})) for name, document in documents.items()}
    far = {uuid for each in said.values() for uuid, epoch in _epochs(*each) if epoch >= LEAP}
    highest: Dict[str, Dict[str, int]] = {uuid: {} for uuid in far}  # instance uuid -> {host: the highest that it says}
    for host, each in said.items() if far else ():
        for uuid, epoch in _epochs(*each):
            if uuid in far:
                highest[uuid][host] = max(epoch, highest[uuid].get(host, 0))
    found: Dict[str, str] = {}
    for uuid, epochs in sorted(highest.items()):
        (heard, _host), (epoch, host) = sorted([(0, ""), *((epoch, host) for host, epoch in epochs.items())])[-2:]
        if epoch >= heard + LEAP:
            found[host] = _why(host, uuid, epoch, heard)
    return found


def _why(host: str, uuid: str, epoch: int, heard: int) -> str:
    return "%s: it says that instance %s had %d owners, and no other host has heard of more than %d. %s" % (
        EpochImplausible.__name__,
        uuid,
        epoch,
        heard,
        state_hints.take_out_miscounting(host),
    )


def _epochs(document: Document, notes: Mapping[str, Note]) -> Iterator[Tuple[str, int]]:
    """(instance uuid, epoch) of all records and notes of a host."""
    for instance in document["instances"]:
        yield instance["uuid"], (instance.get("generation") or NEVER)[0]
    for uuid, note in notes.items():
        known = note.get("known")
        of_owner = known["generation"][0] if known else 0
        yield uuid, max(of_owner, note.get("after", 0), (note.get("gone") or NEVER)[0], (note.get("left") or NEVER)[0])
