# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was deleted is forgotten by all hosts; what may still be there is not."""

from __future__ import annotations

import pytest
from controller import Controller

H1 = "4c4c4544-0042-3510-8052-b4c04f4a3231"


@pytest.mark.parametrize(
    "owner, done, told",
    [
        (H1, {"changed": True}, {"gone": {H1: {"u": [1, 7]}}}),
        (H1, {"failed": True}, {}),
        (H1, {"unreachable": True}, {}),
        (H1, None, {}),
        (None, {"changed": True}, {}),
    ],
    ids=["deleted", "failed", "its host fell silent", "never tried", "nobody remembers an owner"],
)
def test_hosts_are_told_of_what_was_deleted_and_of_nothing_else(owner, done, told):
    one = {"uuid": "u", "hosts": ["h1"], "after": [1, 7], "owner": owner}
    located = {"instances": {"web-1": one}, "found": ["web-1"], "moving": [], "errors": {}}
    controller = Controller({"kvm_hosts": ["h1"], "vms": ["web-1"]}, facts={"localhost": {"berth_located": located}})
    if done:
        controller.register("web-1", __delete_done=done)
    assert controller.run("sum_up_deletion")["ansible_facts"]["berth_gone"] == told
