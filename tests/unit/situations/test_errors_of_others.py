# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The failure of one instance is its own, whatever the configuration of Ansible says about errors."""

from __future__ import annotations

import json

from fake_fleet import play

FATAL = {"ANSIBLE_ANY_ERRORS_FATAL": "true"}


def steps(asked):
    """The steps of moves that a host was asked for."""
    return [step for line in asked for step in json.loads(line)["arguments"].get("steps", ())]


def test_a_move_that_fails_leaves_no_other_in_the_middle_also_where_any_error_is_fatal(tmp_path):
    """The source of at-rest-h2 had let go when the copy of at-rest-h1 failed: its guest was off, and nobody took it over."""
    resize = ("resize", "--limit", "at-rest-h1:at-rest-h2", "-e", "berth_flavor=big")
    done = play(tmp_path, resize, refuse={"h1": ["send"]}, more_environment=FATAL)
    said = " ".join(done["said"].split())
    assert "acquire" in steps(done["asked"]["h1"])
    assert "at-rest-h2 resized h1 big" in said and "at-rest-h1: TestRefuses: h1 refuses" in said
    assert done["rc"] == 2
