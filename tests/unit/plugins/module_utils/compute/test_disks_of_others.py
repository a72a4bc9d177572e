# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks of another host, or of no record, are neither built over nor removed."""

from __future__ import annotations

import contextlib
import pathlib
import shutil

import pytest
from instance_case import OTHER, Case

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DisksOfAnotherHost, DisksWithoutRecord
from ansible_collections.berth.kvm.plugins.module_utils.model import hints


@pytest.mark.follows("disks_of_another_host")
@pytest.mark.parametrize("way", ["it is brought back", "it is gone for good"])
def test_the_disks_of_a_host_that_is_away_outlive_every_create_and_delete_by_another(make_host, wanted, tmp_path, way):
    """Shared storage: whatever the host that is there is asked to do, and how often, not a byte of them changes."""
    away = make_host("kvm1")
    here = make_host("kvm2", OTHER, pool=away.pool)
    first, second = (Case(host, wanted("web1")) for host in (away, here))
    first.make()
    first.root.write_text("what the guest wrote")
    before = {path.name: path.read_bytes() for path in first.root.parent.iterdir()}
    for _again in range(3):
        second.claim()
        with pytest.raises(DisksOfAnotherHost) as refused:
            second.instance().made("t1", second.seed)
        assert refused.value.hint.startswith(hints.disks_of_another_host("web1", away.uuid))
        second.instance().absent()
        assert (second.record, second.domain) == (None, None)
        assert {path.name: path.read_bytes() for path in first.root.parent.iterdir()} == before
    if way == "it is brought back":
        away.connection.lose_power()
        assert first.instance().started() is True and first.root.read_text() == "what the guest wrote"
    else:  # as the docs say
        saved = first.root.parent.rename(tmp_path / "saved")
        second.make()
        second.instance().stopped(1)
        for name in ("root.qcow2", "seed.iso"):
            shutil.copy(saved / name, second.root.parent / name)
        assert second.instance().started() is True and second.root.read_text() == "what the guest wrote"
        assert {path.name: path.read_bytes() for path in saved.iterdir()} == before


def test_a_claim_can_be_deleted_where_the_disks_are_another_hosts(make_host, wanted):
    away = make_host("kvm1")
    first, second = (Case(host, wanted("web1")) for host in (away, make_host("kvm2", OTHER, pool=away.pool)))
    first.make()
    second.claim()
    with contextlib.suppress(DisksOfAnotherHost):
        second.instance().absent()
    assert (second.record, first.root.exists()) == (None, True)


@pytest.mark.follows("disks_without_record")
@pytest.mark.parametrize("way", ["the records are brought back", "the disks are moved elsewhere"])
def test_disks_that_no_record_accounts_for_are_not_built_over(web, tmp_path, way):
    """The records may be on a directory that is not mounted, and the mark of the owner may have been removed by hand."""
    web.make()
    web.root.write_text("what the guest wrote")
    state = pathlib.Path(web.host.store.state_dir)
    state.rename(tmp_path / "away")
    web.host.connection.domains.clear()
    for _again in range(2):
        web.claim()
        with pytest.raises(DisksWithoutRecord) as refused:
            web.instance().made("t1", web.seed)
        assert refused.value.hint == hints.disks_without_record(str(web.root.parent))
        assert (web.root.read_text(), web.record) == ("what the guest wrote", None)
        (web.root.parent / "owner").unlink(missing_ok=True)
    if way == "the records are brought back":
        shutil.rmtree(state)
        (tmp_path / "away").rename(state)
        assert web.instance().started() is True and web.root.read_text() == "what the guest wrote"
    else:
        web.root.parent.rename(tmp_path / "elsewhere")
        web.claim()
        assert web.instance().made("t1", web.seed) is True
        assert (tmp_path / "elsewhere" / "root.qcow2").read_text() == "what the guest wrote"
