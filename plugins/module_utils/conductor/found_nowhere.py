# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No host has a record of an instance: may it be created now, or may a silent host have it?

A silent host may have it if it was the last known owner, or if a run once planned to create it there.
"""

from __future__ import annotations

from typing import Callable

from ..model import state_hints
from .errors import InstanceUnknown, RecordMissing
from .notes import Answers, Notes


def check_absent(
    name: str,
    notes: Notes,
    answers: Answers,
    run: str = "",
    hint: Callable[[str, str], str] = state_hints.restore_record_or_delete,
) -> None:
    """Raise InstanceUnknown or RecordMissing if the instance may exist although no record of it was found.

    Plans of the run itself do not count. ``hint``: of the instance's name and the host that held it, if a record is missing.
    """
    known = notes.known
    if known and answers.counts(known):
        if answers.has(known):
            host = answers.names[known.host_uuid]
            raise RecordMissing(
                "%s held %s, but has a record neither of it nor of its removal" % (host, name),
                hint=hint(name, host),
            )
        raise InstanceUnknown(
            "%s was last seen on %s; it may still run there" % (name, answers.describe(known)),
            hint=answers.hint(known),
        )
    for plan in notes.planned:
        if plan.run != run and answers.counts(plan) and not answers.has(plan):
            raise InstanceUnknown(
                "%s may have been made on %s" % (name, answers.describe(plan)),
                hint=answers.hint(plan),
            )
