# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run does whose transaction another run was faster than, over an engine in memory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "protocol"))
import history_engine  # noqa: E402
from memory_engine import MemoryEngine  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import (  # noqa: E402
    Transact,
    Wait,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import keys  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry.transactions import (  # noqa: E402
    TRIES,
    RegistryBusy,
    transacted,
)

KEY = keys.quota("default")


class Race:
    """One run counts an instance more; others do so right before the first ``others`` of its writes. ``steps``: what it did."""

    def __init__(self, others):
        self.engine, self.others, self.steps = MemoryEngine(), others, []
        self.engine.transact(Transact(writes=(keys.written(keys.META, history_engine.META), self.counted(0))))

    @staticmethod
    def counted(number):
        return keys.written(KEY, {"instances": number})

    def count(self):
        return keys.document(KEY, self.engine.keys[KEY])["instances"]

    def run(self):
        procedure, answer = transacted(self._change), None
        while True:
            try:
                step = procedure.send(answer)
            except StopIteration as ended:
                return ended.value
            answer = self._answer(step)

    def _change(self, draft):
        yield from draft.read(KEY)
        draft.put(KEY, {"instances": draft.get(KEY)["instances"] + 1})
        return "done"

    def _answer(self, step):
        if isinstance(step, Wait):
            self.steps.append(step.longest)
            return None
        self.steps.append("write" if step.writes else "read")
        if step.writes and self.others:
            self.others -= 1
            self.engine.transact(Transact(writes=(self.counted(self.count() + 1),)))
        return self.engine.transact(step)


def test_alone_it_reads_what_it_knows_it_needs_once_and_writes():
    race = Race(0)
    assert race.run() == "done" and race.steps == ["read", "read", "write"] and race.count() == 1


def test_once_too_late_it_decides_again_at_once_by_what_it_was_told():
    race = Race(1)
    assert race.run() == "done" and race.steps == ["read", "read", "write", "write"] and race.count() == 2


def test_twice_too_late_it_waits_each_time_and_reads_all_anew_at_once():
    race = Race(4)
    assert race.run() == "done" and race.count() == 5
    again = ["read", "write"]
    assert race.steps == ["read", *again, "write", *3 * [Wait().longest, *again]]


def test_it_gives_up_in_the_end_and_nothing_of_it_is_written():
    race = Race(TRIES)
    with pytest.raises(RegistryBusy):
        race.run()
    assert race.count() == TRIES and race.steps.count("write") == TRIES
