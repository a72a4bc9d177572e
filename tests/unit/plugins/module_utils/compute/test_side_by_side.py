# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work side by side: each piece in a process of its own, and one that ends early takes no other with it."""

from __future__ import annotations

import os
import time

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import build_many


@pytest.mark.parametrize("at_once", [1, 2, 9])
def test_what_each_gives_comes_back_in_the_order_of_what_was_asked(at_once):
    given = build_many.run_side_by_side(lambda item: {"twice": 2 * item}, [3, 1, 2], at_once, 60)
    assert given == [{"twice": 6}, {"twice": 2}, {"twice": 4}]


def test_nothing_to_do_is_no_process():
    assert build_many.run_side_by_side(os.abort, [], 3, 60) == []


def test_one_that_ends_in_the_middle_has_said_nothing_and_the_others_have():
    def work(item):
        if item == "killed":
            os.kill(os.getpid(), 9)
        if item == "left":
            os._exit(0)
        if item == "broken":
            raise OSError("broken")
        return item

    assert build_many.run_side_by_side(work, ["a", "killed", "left", "broken", "b"], 2, 60) == [
        "a",
        None,
        None,
        None,
        "b",
    ]


def test_more_than_a_pipe_holds_comes_whole():
    assert build_many.run_side_by_side(lambda item: item * 300000, ["a", "b"], 2, 60) == ["a" * 300000, "b" * 300000]


def test_no_more_work_than_at_once(tmp_path):
    def work(item):
        (tmp_path / item).touch()
        time.sleep(0.1)
        found = len(list(tmp_path.iterdir()))
        (tmp_path / item).unlink()
        return found

    found = build_many.run_side_by_side(work, list("abcdef"), 2, 60)
    assert max(found) <= 2


def test_they_run_at_the_same_time(tmp_path):
    """Each waits for the other."""

    def work(item):
        (tmp_path / item).touch()
        end = time.monotonic() + 30
        while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        return len(list(tmp_path.iterdir()))

    assert build_many.run_side_by_side(work, ["a", "b"], 2, 60) == [2, 2]


def test_what_a_piece_does_to_its_process_is_gone_with_it():
    before = os.umask(0o022)
    try:
        build_many.run_side_by_side(lambda _item: os.umask(0o777), [1], 1, 60)
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def test_one_that_hangs_has_said_nothing_in_the_end_and_is_ended(tmp_path):
    def work(item):
        if item == "hung":
            (tmp_path / "process").write_text(str(os.getpid()))
            time.sleep(600)
        return item

    assert build_many.run_side_by_side(work, ["a", "hung", "b"], 2, 3) == ["a", None, "b"]
    _process, status = os.waitpid(int((tmp_path / "process").read_text()), 0)
    assert os.WTERMSIG(status) == 9
