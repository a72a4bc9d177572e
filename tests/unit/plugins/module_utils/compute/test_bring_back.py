# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host of the copy that stayed is lost for good: the other copy is brought back, and the lost one counts less (I1, I3)."""

from __future__ import annotations

import pathlib
import shutil

import pytest
from instance_case import Case, Killed
from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import (
    DisksNotHere,
    DisksOfAnotherHost,
    DisksUnfit,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import set_aside
from ansible_collections.berth.kvm.plugins.module_utils.model import copy_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import InstanceNotFound

OTHER = "22222222-3c6e-5d59-9d0b-3a1c9d7f1e2a"
ASIDE = ["stopping", "setting aside", "permit", "stop", "disks", "domain", "list", "volumes", "record", None]
BACK = ["record again", "disks back", "beside", "unlist", "define", "active", None]
OFF = ("stopped", None, "shutdown", False)


@pytest.fixture
def copies(make_host, wanted):
    """The same instance on two hosts: (the one that stays, the other), when the first counts already."""
    stays, other = (
        Case(make_host(name, uuid), wanted("web1")) for name, uuid in (("kvm1", OTHER), ("kvm2", OTHER[::-1]))
    )
    for case in (stays, other):
        case.make()
        case.root.write_text("what the guest wrote on " + case.host.connection.getHostname())
    set_aside.keep(stays.instance(), list(other.record.generation))
    return stays, other


def put_away(case, killed_at=None):
    if killed_at is None:
        return pathlib.Path(set_aside.set_aside(case.instance(), 1))
    with pytest.raises(Killed):
        set_aside.set_aside(case.instance(killed_at), 1)
    return None


def back(case, above, killed_at=None):
    """What the playbook runs on the host."""
    set_aside.record_again(case.instance(killed_at))
    return set_aside.bring_back(case.instance(killed_at), above, 1)


@pytest.fixture
def sealed(copies, monkeypatch, tmp_path):
    """The other copy has a TPM, whose state libvirt removes with its definition."""
    monkeypatch.setattr(paths, "SWTPM", str(tmp_path / "swtpm"))
    _stays, other = copies
    state = pathlib.Path(paths.tpm_state(other.uuid))
    state.parent.mkdir(parents=True)
    state.write_bytes(b"sealed")
    undefine = set_aside.domain_xml.remove_guest

    def removed(connection, uuid, record):
        found = undefine(connection, uuid, record)
        shutil.rmtree(tmp_path / "swtpm" / uuid, ignore_errors=True)
        return found

    monkeypatch.setattr(set_aside.domain_xml, "remove_guest", removed)
    return state


@pytest.mark.parametrize("killed_back", BACK)
@pytest.mark.parametrize("killed_aside", ASIDE[2:])
def test_wherever_the_run_was_killed_that_set_it_aside_it_is_brought_back_whole(
    copies, sealed, killed_aside, killed_back
):
    """And wherever the run is killed that brings it back, the next one ends that."""
    stays, other = copies
    above = list(stays.record.generation)
    before = other.root.read_text()
    put_away(other, killed_aside)
    if killed_back is not None:
        try:
            back(other, above, killed_back)
        except Killed:
            pass
    back(other, above)
    assert other.root.read_text() == before and other.record.phase == "active"
    assert other.state() == OFF and sealed.read_bytes() == b"sealed"
    assert not {*set_aside.BESIDE} & {path.name for path in other.root.parent.iterdir()}
    assert other.record.generation[0] > stays.record.generation[0]
    assert back(other, above) is False, "again is no change"
    assert set_aside.listed(other.host.store) == {} and set_aside.remove(other.instance()) == []
    assert other.instance().started() and other.root.read_text() == before


def test_before_it_is_back_nobody_starts_it_and_it_can_be_set_aside_again(copies):
    _stays, other = copies
    put_away(other)
    set_aside.record_again(other.instance())
    assert other.record.phase == "setting_aside"
    path = put_away(other)
    assert other.record is None and (path / "root.qcow2").exists()


@pytest.mark.follows("keep_where_set_aside")
def test_what_was_not_set_aside_or_was_removed_is_not_brought_back(copies):
    _stays, other = copies
    put_away(other)
    set_aside.remove(other.instance())
    for act in (set_aside.record_again, set_aside.would_record_again):
        with pytest.raises(InstanceNotFound, match="no copy of it was set aside on kvm2") as refused:
            act(other.instance())
        assert refused.value.hint == copy_hints.keep_where_set_aside()


def test_a_copy_that_only_counted_less_counts_more(copies):
    """The run was killed before it set anything aside."""
    stays, other = copies
    set_aside.stop(other.instance(), 1)
    assert back(other, list(stays.record.generation)) is True
    assert other.record.generation[0] > stays.record.generation[0]


def test_of_two_that_were_set_aside_the_later_is_brought_back(copies):
    stays, other = copies
    put_away(other)
    other.make()
    other.root.write_text("the later")
    put_away(other)
    back(other, list(stays.record.generation))
    assert other.root.read_text() == "the later" and len(set_aside.listed(other.host.store)) == 1


def test_disks_that_are_gone_or_in_two_places_are_left_alone(copies):
    stays, other = copies
    path = put_away(other)
    home = other.root.parent
    shutil.copytree(path, home)
    with pytest.raises(DisksUnfit, match="both have files"):
        set_aside.record_again(other.instance())
    shutil.rmtree(home)
    kept = path.rename(path.parent / "elsewhere")
    with pytest.raises(DisksNotHere):
        set_aside.record_again(other.instance())
    kept.rename(path)
    assert back(other, list(stays.record.generation)) is True


@pytest.mark.follows("put_disks_back")
@pytest.mark.parametrize("half", [False, True], ids=["set aside", "half"])
@pytest.mark.parametrize("file", ["root.qcow2", "data-logs.qcow2"])
def test_a_copy_that_lacks_a_disk_is_not_brought_back_and_the_disk_is_named(copies, half, file):
    stays, other = copies
    spec = dict(other.record.spec, disks=[{"name": "logs", "size_gb": 1, "bus": "virtio"}])
    plant(other.host.store, other.record.next(spec=spec))
    (other.root.parent / "data-logs.qcow2").write_text("what it logged")
    path = put_away(other)
    if half:
        set_aside.record_again(other.instance())
    kept = (path / file).rename(path.parent / "moved")
    above = list(stays.record.generation)
    for act in (lambda: back(other, above), lambda: set_aside.would_bring_back(other.instance(), above)):
        with pytest.raises(DisksNotHere, match="lacks %s of web1" % file) as refused:
            act()
        assert refused.value.hint == copy_hints.put_disks_back(str(path))
    assert (other.record.phase if half else other.record) == ("setting_aside" if half else None)
    kept.rename(path / file)
    assert back(other, above) is True and (other.root.parent / file).exists()


def test_a_data_disk_that_was_never_finished_keeps_no_copy_away(copies):
    """update_disks was killed: it finishes the disk once the copy is back."""
    stays, other = copies
    spec = dict(other.record.spec, disks=[{"name": "logs", "size_gb": 1, "bus": "virtio"}])
    plant(other.host.store, other.record.next(spec=spec))
    (other.root.parent / "data-logs.qcow2.tmp").write_text("")
    put_away(other)
    assert back(other, list(stays.record.generation)) is True


def test_on_one_storage_the_disks_of_the_lost_host_are_for_take_over(make_host, wanted):
    stays = Case(make_host("kvm1"), wanted("web1"))
    other = Case(make_host("kvm2", OTHER, pool=stays.host.pool), wanted("web1"))
    stays.make()
    other.claim()
    for phase in ("building", "active"):
        other.host.store.compare_and_swap(other.record, other.record.next(role="OWN", phase=phase))
    put_away(other)
    with pytest.raises(DisksOfAnotherHost) as refused:
        set_aside.record_again(other.instance())
    assert "evacuate --limit web1 -e berth_lost_hosts=%s" % stays.host.identify() in refused.value.hint
    assert stays.root.exists() and other.record is None


def test_the_addresses_of_a_copy_that_was_set_aside_are_told_without_a_change(copies):
    other = copies[1]
    networks = [{"mac": "52:54:00:00:00:07", "type": "bridge", "source": "br0", "address": "192.0.2.7"}]
    plant(other.host.store, other.record.replace(spec={**other.record.spec, "networks": networks}))
    set_aside.set_aside(other.instance(), 0)
    before = set_aside.listed(other.host.store)
    told = ["MAC address 52:54:00:00:00:07", "address 192.0.2.7 on bridge br0"]
    assert set_aside.addresses(other.instance()) == told
    assert other.record is None and set_aside.listed(other.host.store) == before
