# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For callbacks of tests: a leg of a move begins when the run says so, in the process of its task, which waits here."""

from __future__ import annotations

import os

from ansible.utils.display import Display

from ansible_collections.berth.kvm.plugins.module_utils.conductor.sequences import FLEET, SEQUENCES

LABELS = frozenset(leg.label for sequence in SEQUENCES.values() for leg in sequence.legs if leg.side != FLEET)


def before_each(begins):
    """Call ``begins(label)`` before a leg is asked for."""
    shows, main = Display.display, os.getpid()

    def display(self, msg, *args, **more):
        label = str(msg).partition(": ")[2]
        if os.getpid() != main and label in LABELS and not more.get("log_only"):
            begins(label)
        return shows(self, msg, *args, **more)

    Display.display = display
