# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that was reinstalled has its uuid, which its board gives it, and nothing of what it held."""

from __future__ import annotations

import pytest
from fleet_case import WEB, record_and_domain_lost

from ansible_collections.berth.kvm.plugins.module_utils.conductor import errors, locate
from ansible_collections.berth.kvm.plugins.module_utils.model import state_hints


@pytest.mark.follows("restore_record_or_delete")
def test_after_a_host_was_installed_anew_with_nothing_kept_the_instance_is_deleted_and_made_again(fleet):
    """recover_record had nothing there, and what led on was told by that alone."""
    assert fleet.run() is None
    record_and_domain_lost(fleet, "h1")
    with pytest.raises(errors.RecordMissing) as told:
        locate.locate(fleet.read(), "web1", WEB)
    assert told.value.hint == state_hints.restore_record_or_delete("web1", "h1")
    assert fleet.delete() == ["h1"]
    assert (fleet.run(), fleet.owners()) == (None, ["h1"])
