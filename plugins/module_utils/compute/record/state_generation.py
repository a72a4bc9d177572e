# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The generation of a host's facts: a number that grows with every change, to tell older facts from newer ones."""

from __future__ import annotations

from . import state_file
from .counter_file import CounterFile, locked
from .store import STATE_DIR


def _parse(data):
    return {"n": state_file.whole(data["n"]), "of": state_file.text(data["of"])}


FILE = CounterFile("generation.json", _parse)


def of(fingerprint, save=True, state_dir=STATE_DIR):
    """Return a number that grows whenever ``fingerprint`` (text) differs from the previous one.

    With ``save`` false, nothing is written, and the number is what a saving run would return now. 0 without a state
    directory.
    """
    last = FILE.peek(state_dir)
    if last is None:
        return 0
    if last.get("of") == fingerprint:
        return last["n"]
    if not save:
        return last.get("n", 0) + 1
    with locked(state_dir) as directory:
        last = FILE.read(directory)
        if last.get("of") != fingerprint:
            last = {"n": last.get("n", 0) + 1, "of": fingerprint}
            FILE.write(directory, last)
        return last["n"]
