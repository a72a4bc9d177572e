# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running guest gets CPUs and memory by a resize on its host, and gives them back: seen from inside, where it never boots again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from playbooks import homes, records

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "faults"))

import cases  # noqa: E402


def play(case, playbook, flavor, host=None):
    here = {"berth_allow_resize_to_same_host": True, "berth_target_host": host} if host else {}
    return case.play(playbook, {"mover_flavor": flavor, **here})


@pytest.fixture
def mover(lab, image, tmp_path):
    """A running instance of a flavor with ceilings, whose guest writes numbered blocks -> (case, its host)."""
    case = cases.Case(lab, image, tmp_path)
    play(case, "create", "grows1")
    facts(case, case.owner(), lambda said: said["ack"] > 0)
    return case, case.owner()


def facts(case, host, until=lambda said: True):
    return case.lab.guest_facts(cases.NAME, host, timeout=180, until=until)


def has(vcpus, steps_of_memory, base):
    """It has so many CPUs, and so many times 128 MiB more than in ``base``."""
    wanted = base["mem_kib"] + (steps_of_memory << 17)
    return lambda said: said["vcpus"] == vcpus and abs(said["mem_kib"] - wanted) < 16 << 10


def test_a_guest_grows_while_it_writes_and_moves_live_and_its_next_start_has_all_of_it(mover):
    case, host = mover
    before = facts(case, host)
    done = play(case, "resize", "grows2", host)
    assert "gets its CPUs and memory without a restart" in done.output and "guest was away" not in done.output
    grown = facts(case, host, has(2, 1, before))
    assert (grown["boots"], grown["nonce"]) == (1, before["nonce"])
    assert play(case, "resize", "grows2", host).changed.get(cases.NAME, 0) == 0

    play(case, "confirm_resize", "grows2", host)
    assert records(case.lab) == [(host, cases.NAME, "OWN")]
    assert play(case, "create", "grows2").changed.get(cases.NAME, 0) == 0

    play(case, "live_migrate", "grows2")
    there = homes(case.lab)[cases.NAME]
    assert there != host
    arrived = facts(case, there, lambda said: said["ack"] > grown["ack"])
    assert (arrived["boots"], arrived["vcpus"], arrived["mem_kib"]) == (1, 2, grown["mem_kib"])

    play(case, "resize", "grows3", there)
    assert facts(case, there, has(3, 2, before))["boots"] == 1
    play(case, "confirm_resize", "grows3", there)
    case.play("reboot", {"mover_flavor": "grows3", "berth_reboot": "hard"})
    again = facts(case, there, lambda said: said["boots"] == 2 and said["ack"] > 0)
    assert (again["vcpus"], again["verify"]["result"]) == (3, "ok")
    assert play(case, "create", "grows3").changed.get(cases.NAME, 0) == 0


def test_a_guest_gives_back_the_memory_that_it_got_and_keeps_what_it_wrote(mover):
    case, host = mover
    before = facts(case, host)
    play(case, "resize", "grows1m", host)
    grown = facts(case, host, has(1, 1, before))
    play(case, "revert_resize", "grows1", host)
    after = facts(case, host, has(1, 0, before))
    assert after["boots"] == 1 and after["ack"] >= grown["ack"]
    assert records(case.lab) == [(host, cases.NAME, "OWN")]
    assert play(case, "create", "grows1").changed.get(cases.NAME, 0) == 0


@pytest.mark.slow
def test_an_emulated_guest_is_restarted_to_give_cpus_back_and_keeps_what_it_wrote(mover):
    case, host = mover
    before = facts(case, host)
    play(case, "resize", "grows2", host)
    grown = facts(case, host, has(2, 1, before))
    assert "does not let go" in " ".join(play(case, "revert_resize", "grows1", host).output.split())
    after = facts(case, host, lambda said: said["boots"] == 2 and said["ack"] >= grown["ack"])
    assert (after["vcpus"], after["verify"]["result"]) == (1, "ok") and abs(after["mem_kib"] - before["mem_kib"]) < 1024
