# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections import Counter

from ansible_collections.berth.kvm.plugins.plugin_utils.inventory_variables import raw_vars, read_once


class HostVars(dict):
    """As Ansible's: it puts the variables together each time."""

    def __init__(self, values):
        super().__init__(values)
        self.reads = Counter()

    def raw_get(self, name):
        self.reads[name] += 1
        return dict(self[name])


def test_while_a_task_is_at_work_the_variables_of_a_host_are_put_together_once():
    hostvars = HostVars({"web": {"a": 1}, "copy": {"berth_clone_of": "web"}})
    with read_once():
        for _again in range(3):
            assert raw_vars({"hostvars": hostvars}, "web") == {"a": 1}
            raw_vars({"hostvars": hostvars}, "copy")
    assert hostvars.reads == {"web": 1, "copy": 1}


def test_the_next_task_sees_what_has_changed_since():
    hostvars = HostVars({"web": {"a": 1}})
    with read_once():
        raw_vars({"hostvars": hostvars}, "web")
    hostvars["web"]["a"] = 2
    assert raw_vars({"hostvars": hostvars}, "web") == {"a": 2}
    with read_once():
        assert raw_vars({"hostvars": hostvars}, "web") == {"a": 2}


def test_the_variables_of_one_task_are_not_those_of_another_inside_it():
    outer, inner = HostVars({"web": {"a": 1}}), HostVars({"web": {"a": 2}})
    with read_once():
        raw_vars({"hostvars": outer}, "web")
        assert raw_vars({"hostvars": inner}, "web") == {"a": 2}
