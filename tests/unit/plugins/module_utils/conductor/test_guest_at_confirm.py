# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people are told of a guest whose move they confirm."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor.unconfirmed import guest_at_confirm


@pytest.mark.parametrize("state", ["no panic seen", "not looked at"])
def test_a_guest_that_nobody_saw_come_up_is_said_to_be_perhaps_still_booting_with_what_to_do(state):
    told = guest_at_confirm("web1", {"state": state, "seen": "says nothing on its console"})
    assert told == (
        "web1: nobody saw its guest come up (says nothing on its console). It may still be booting: look again with "
        "berth.kvm.console --limit web1"
    )


@pytest.mark.parametrize("state", ["answers", "up", "off", "crashed"])
def test_what_is_known_is_said_as_it_is(state):
    assert guest_at_confirm("web1", {"state": state, "seen": "said so"}) == "web1: its guest: %s (said so)" % state
