# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks under another name do the same; one that had the name before 1.0 says so."""

from __future__ import annotations

import re

import fake_fleet
import pytest

RENAMED = {
    "keep_one": "keep_one_copy", "recover": "start_after_outage", "recover_record": "restore_record", "take_over": "evacuate",
}  # fmt: skip
ALSO = {
    "list": "show", "hosts": "host_facts", "info": "show", "status": "show", "restart": "reboot", "shutdown": "stop",
    "confirm": "confirm_resize", "move": "migrate", "undrain": "return",
}  # fmt: skip
PLAYBOOKS = fake_fleet.ROOT / "playbooks"


@pytest.mark.parametrize("old", RENAMED)
def test_an_old_name_imports_the_new_one_and_says_until_when(old):
    text = (PLAYBOOKS / (old + ".yml")).read_text("utf-8")
    assert "Internal: the name of berth.kvm.%s before 1.0" % RENAMED[old] in text and "2.0.0" in text
    assert re.search(
        r"import_playbook: %s\.yml\n  vars:\n    __berth_old_name: %s is %s\n" % (RENAMED[old], old, RENAMED[old]), text
    )
    page = (fake_fleet.ROOT / "docs/upgrading.md").read_text("utf-8")
    assert "| `%s` | `%s` |" % (old, RENAMED[old]) in page


def test_an_old_name_does_the_same_with_a_warning(tmp_path):
    done = fake_fleet.play(tmp_path, ["recover", "--limit", "at-rest-h1", "--check"])
    said = " ".join(done["said"].split())
    assert done["rc"] == 0 and "TASK [Start what should run]" in said
    assert (
        said.count("the playbook berth.kvm.recover is start_after_outage now, and the old name is gone with 2.0.0") == 1
    )


@pytest.mark.parametrize("name", ALSO)
def test_a_word_that_people_type_is_the_playbook_that_they_mean(tmp_path, name):
    said = [fake_fleet.play(tmp_path / each, [each])["stdout"].partition("TASK")[2] for each in (name, ALSO[name])]
    assert said[0] == said[1] and "is gone with" not in said[0]
