# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that somebody added to the guest, and a reboot."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DiskChainChanged
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import power

ON = ("active", None, "running", True)
ADDED = '<disk type="file" device="disk"><source file="%s"%s/><target dev="vdz"/></disk></devices>'


def add_disk(web, path, more=""):
    web.domain.xml = web.domain.xml.replace("</devices>", ADDED % (path, more))


@pytest.mark.follows("detach_gone")
def test_a_guest_to_which_a_disk_was_added_that_is_gone_is_not_ended_for_a_reboot(web, tmp_path):
    """It would stay off, for no later check knows that file."""
    web.make()
    before = web.domain.xml
    add_disk(web, tmp_path / "tools.iso")
    for reboot in (lambda: power.reboot(web.instance(), False, 1), lambda: power.would_reboot(web.instance(), False)):
        with pytest.raises(DiskChainChanged, match=r"web1 .* could not start again on kvm1.*tools.iso") as refused:
            reboot()
        assert "virsh detach-disk %s vdz --config" % web.uuid in refused.value.hint
    assert web.state() == ON and web.domain.starts == 1
    web.domain.xml = before
    power.reboot(web.instance(), False, 1)
    add_disk(web, tmp_path / "tools.iso")
    (tmp_path / "tools.iso").write_bytes(b"")
    power.reboot(web.instance(), False, 1)
    assert web.state() == ON and web.domain.starts == 3


@pytest.mark.parametrize("source, more", [("gone.iso", ' startupPolicy="optional"'), ("under a file/x", "")])
def test_a_reboot_goes_on_with_an_added_disk_that_a_start_does_without_or_that_nobody_can_look_at(
    web, tmp_path, source, more
):
    web.make()
    (tmp_path / "under a file").write_bytes(b"")
    add_disk(web, tmp_path / source, more)
    power.reboot(web.instance(), False, 1)
    assert web.state() == ON and web.domain.starts == 2
