# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest without a record, of an instance that no inventory has, such as one that a survey made."""

from __future__ import annotations

import pytest
from fleet_case import WEB, record_lost

from ansible_collections.berth.kvm.plugins.module_utils.conductor import locate
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints


@pytest.mark.follows("restore_unlisted_record")
def test_a_lost_record_of_an_instance_that_no_inventory_has_is_taken_back_by_the_name_in_its_definition(fleet):
    assert fleet.run() is None
    record_lost(fleet, "h1")
    seen = fleet.read()
    (stray,) = seen.strays[WEB]
    told = locate.stray_hint(seen, WEB, WEB, stray)
    assert told == fleet_hints.restore_unlisted_record(WEB, "h1") and "--limit" not in told
    assert fleet.recover_record() == ["h1"] and fleet.owners() == ["h1"]
