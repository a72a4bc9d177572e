# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whichever part of the inventory a run that removes a host names, all instances count for whether something is on the host."""

from __future__ import annotations

import json

import fake_fleet
import good
import pytest

ALL = sorted(good.spec(name)["uuid"] for name in ("new-1", "at-rest-h1", "at-rest-h2", "at-rest-h3"))


@pytest.mark.parametrize(
    "part", [[], ["--limit", "h1"], ["--limit", "at-rest-h2"], ["-e", "berth_instances=at-rest-h2"]]
)
def test_the_hosts_are_asked_about_all_instances(tmp_path, part):
    done = fake_fleet.play(tmp_path, ["remove_host", "-e", "berth_remove_host=h1", *part])
    assert "HostInUse" in done["said"], done["said"][-2000:]
    asked = [json.loads(line) for lines in done["asked"].values() for line in lines]
    assert [sorted(each["arguments"]["about"]) for each in asked] == [ALL] * len(good.HOSTS)
