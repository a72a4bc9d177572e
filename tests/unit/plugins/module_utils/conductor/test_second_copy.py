# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What hosts remember of an instance that was moved, deleted, or whose records are lost or from an old backup: two hosts never own
it (I1), and a person's word brings it back."""

from __future__ import annotations

import os
import shutil

import pytest
from fleet_case import HAPPENINGS, WEB, another_uuid, moved, record_and_domain_lost, record_lost, unmounted
from records import in_a_move, plant

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import state_directory, whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.conductor import (
    errors,
    gossip,
    keep_one,
    locate,
    sides,
)
from ansible_collections.berth.kvm.plugins.module_utils.model import (
    copy_hints,
    fleet_hints,
    hints,
    state_hints,
)


def test_where_an_instance_was_moved_to_is_known_to_all_after_the_next_run_of_create(fleet):
    assert fleet.run() is None
    moved(fleet, "h1", "h2")
    assert fleet.run() is None
    fleet.silence("h1", "h2")
    assert fleet.run(prefer=("h3",), lost=["h1"]) == "InstanceUnknown" and fleet.owners() == ["h2"]
    fleet.silence()
    seen = [whereabouts.digests(host.store) for host in fleet.hosts.values()]
    assert len(list(fleet.create())) == len(list(fleet.create())), "once told, no host is asked a second time"
    assert seen == [whereabouts.digests(host.store) for host in fleet.hosts.values()]


def says_that_it_is_gone(fleet, liar):
    host = fleet.hosts[liar]
    facts, rescan = host.facts, host.rescan
    lie = {"notes": {WEB: {"known": None, "planned": [], "after": 0, "gone": [9, 0]}}}
    host.facts, host.rescan = lambda: {**facts(), **lie}, lambda *args: {**rescan(*args), **lie}


def test_that_an_instance_is_gone_is_believed_of_no_host_that_nobody_knows_to_have_had_it(fleet):
    """Its owner is silent, and its guest runs on."""
    assert fleet.run(prefer=("h2", "h1", "h3")) is None
    fleet.silence("h2")
    says_that_it_is_gone(fleet, "h1")
    assert fleet.run(prefer=("h3", "h1")) == "InstanceUnknown"
    assert fleet.owners() == ["h2"]
    assert gossip.whereabouts(fleet.read())["gone"] == {}, "nor is it spread"


def test_that_it_is_gone_is_believed_of_the_host_that_it_was_moved_to(fleet):
    """Its earlier owner is silent."""
    assert fleet.run() is None
    moved(fleet, "h1", "h2")
    assert fleet.run() is None
    last = fleet.hosts["h2"].record().generation
    fleet.hosts["h2"].delete(last)
    fleet.silence("h1")
    assert fleet.run(prefer=("h3", "h2")) is None and fleet.owners() == ["h3"]


def test_what_was_moved_and_deleted_while_a_host_was_silent_is_made_anew_when_that_host_is_back(fleet):
    """It remembers the first owner, which gave the instance away; that the last one had it nobody else remembers."""
    assert fleet.run() is None
    fleet.silence("h3")
    moved(fleet, "h1", "h2")
    assert fleet.run() is None and fleet.delete() == ["h2"]
    removed = whereabouts.recall(fleet.hosts["h2"].store, [WEB])[WEB]["gone"]
    fleet.hosts["h1"].rescan((), {"gone": {"id-h2": {WEB: removed}}})
    fleet.silence()
    assert fleet.run(prefer=("h3",)) is None and fleet.owners() == ["h3"]
    assert list(fleet.hosts["h3"].record().generation) > list(removed)


@pytest.mark.parametrize("told", [(), ("h1",), ("h1", "h3")])
def test_what_was_read_between_release_and_takeover_hides_no_owner_from_later_runs(fleet, told):
    """Then neither side owns it, and all hosts are told of the source, at the generation with which it let go."""
    assert fleet.run() is None
    epoch = fleet.hosts["h1"].record().generation[0] + 1
    for name in told:
        fleet.hosts[name].rescan((), {"known": {"id-h1": {WEB: [epoch, 0]}}})
    moved(fleet, "h1", "h2")
    fleet.silence("h2")
    assert fleet.run(prefer=("h3",)) == "InstanceUnknown" and fleet.owners() == ["h2"]


def test_a_host_that_gave_an_instance_away_makes_no_record_of_its_owner_an_old_one(fleet):
    assert fleet.run() is None
    moved(fleet, "h1", "h2", writes=9)
    assert fleet.recover_record() == []


def test_what_was_moved_to_a_host_that_is_silent_now_is_not_made_anew(fleet):
    """Who remembers the first owner and asks it learns that it gave the instance away, and to whom."""
    assert fleet.run() is None
    fleet.silence("h3")
    moved(fleet, "h1", "h2")
    fleet.silence("h2")
    assert fleet.run(prefer=("h3",)) == "InstanceUnknown" and fleet.owners() == ["h2"]


@pytest.mark.parametrize("noticed", ["by the host", "by the others"])
def test_a_state_directory_from_an_old_backup_starts_nothing_while_the_owner_is_silent(fleet, noticed):
    """The instance is moved by delete and create; its old host then gets its directory back as it was before."""
    assert fleet.run() is None
    state = fleet.hosts["h1"].store.state_dir
    shutil.copytree(state, state + ".backup")
    copied = shutil.copy(fleet.hosts["h1"].store.identity_copy, state + ".copy")
    fleet.hosts["h1"].delete()
    assert fleet.run(prefer=("h2", "h3")) is None and fleet.owners() == ["h2"]
    shutil.rmtree(state)
    os.rename(state + ".backup", state)
    if noticed == "by the others":
        shutil.copy(copied, fleet.hosts["h1"].store.identity_copy)  # the backup was of the whole host
    fleet.silence("h2")
    assert fleet.run() == {"by the host": "InstanceUnknown", "by the others": "RecordOutdated"}[noticed]
    assert fleet.owners() == ["h2"]


@pytest.mark.follows("mount_state_directory")
@pytest.mark.parametrize("silent", [("h1",), ("h1", "h3")], ids=" and ".join)
def test_a_state_directory_of_another_host_owns_nothing_by_a_persons_word_that_it_is_the_newest(fleet, silent):
    """Restored on the wrong host, or the disk was put into another machine: the generation is the same."""
    assert fleet.run() is None
    here = fleet.hosts["h2"].store
    shutil.rmtree(here.state_dir)
    shutil.copytree(fleet.hosts["h1"].store.state_dir, here.state_dir)
    fleet.silence(*silent)
    assert "another one than this host was prepared with" in fleet.read().verdicts["h2"]
    state_directory.establish(here, accept=True)
    assert (fleet.run(), fleet.owners()) == ("RecordOutdated", ["h1"])
    assert fleet.hint == hints.bring_back_or_lost(["h1"])
    with pytest.raises(errors.RecordOutdated):
        locate.locate(fleet.read(), "web1", WEB)
    fleet.hosts["h1"].runs = False
    assert (fleet.run(lost=["h1"]), fleet.owners()) == (None, ["h2"])


def test_of_a_host_whose_records_do_not_count_it_is_told_why_and_what_to_run(fleet):
    assert fleet.run() is None
    unmounted(fleet, "h1")
    fleet.hosts["h1"].domain = False
    with pytest.raises(errors.InstanceUnknown) as told:
        locate.locate(fleet.read(), "web1", WEB)
    assert "last seen on h1, whose records are not trusted: the state directory" in str(told.value)
    assert "berth_host_accept_state_directory" in told.value.hint and "lost_hosts" not in told.value.hint


@pytest.mark.follows("restore_record", "delete_without_record")
@pytest.mark.parametrize("happens", [record_lost, record_and_domain_lost], ids=lambda claim: claim.__name__)
def test_a_lost_record_is_restored_from_a_backup_or_taken_back_or_the_instance_deleted(fleet, tmp_path, happens):
    assert fleet.run() is None
    home = fleet.hosts["h1"]
    backup = shutil.copytree(home.store.state_dir, str(tmp_path / "backup"))
    happens(fleet, "h1")
    assert fleet.run() == HAPPENINGS[happens]
    if happens is record_lost:
        assert fleet.recover_record() == ["h1"]
        assert (fleet.run(), fleet.owners(), fleet.recover_record()) == (None, ["h1"], [])
    else:
        with pytest.raises(errors.RecordMissing) as told:
            fleet.recover_record()
        assert told.value.hint == fleet_hints.delete_without_record(WEB, "web1", "h1")
        shutil.rmtree(home.store.state_dir)
        shutil.copytree(backup, home.store.state_dir)
        assert (fleet.run(), fleet.owners()) == (None, ["h1"])
    happens(fleet, "h1")
    assert fleet.delete() == ["h1"]
    assert (fleet.run(prefer=("h2", "h3")), fleet.owners()) == (None, ["h2"])


def test_a_record_is_not_taken_back_while_another_host_may_have_the_instance(fleet):
    assert fleet.run() is None
    record_lost(fleet, "h1")
    fleet.silence("h3")
    with pytest.raises(errors.InstanceUnknown):
        fleet.recover_record()
    fleet.silence()
    whereabouts.remember(fleet.hosts["h2"].store, {"hosts": {"id-h9": "h9"}, "known": {"id-h9": {WEB: [4, 0]}}})
    with pytest.raises(errors.InstanceUnknown, match="last seen on h9"):
        fleet.recover_record()
    assert fleet.recover_record(lost=["h9"]) == ["h1"]
    fleet.hosts["h2"].domain = True
    record_lost(fleet, "h1")
    with pytest.raises(errors.DuplicateInstance):
        fleet.recover_record()


@pytest.mark.follows("undefine_copies")
@pytest.mark.parametrize("owned", [True, False], ids=["beside the owner's", "and no record anywhere"])
def test_a_guest_that_somebody_migrated_by_hand_goes_as_the_hint_says_and_the_instance_stays(fleet, owned):
    """keep_one chooses between two records, and there is at most one."""
    assert fleet.run() is None
    if not owned:
        record_lost(fleet, "h1")
    fleet.hosts["h3"].domain = True
    with pytest.raises(errors.DuplicateInstance) as told:
        fleet.recover_record()
    hosts = ["h3"] if owned else ["h1", "h3"]
    assert told.value.hint == state_hints.undefine_copies(WEB, hosts, owned)
    fleet.hosts["h3"].domain = False  # virsh undefine
    assert fleet.recover_record() == ([] if owned else ["h1"])
    assert (fleet.run(), fleet.owners()) == (None, ["h1"])


@pytest.mark.follows("undefine_copies")
@pytest.mark.parametrize("phase", ["active", "resized"])
def test_a_guest_without_a_record_beside_the_owner_of_the_instance_goes_as_the_hint_says(fleet, phase):
    """As on the source of a move whose record was lost: to take back a record is refused, in a move as at rest."""
    assert fleet.run() is None
    home = fleet.hosts["h1"]
    if phase == "resized":
        moved = home.record().replace(phase="resized", vm_state="resized", op="ab" * 16, generation=[2, 2])
        plant(home.store, moved)
    fleet.hosts["h3"].domain = True
    for look in (locate.locate, locate.locate_to_take_back):
        with pytest.raises((errors.DomainWithoutRecord, errors.DuplicateInstance, errors.InstanceMoving)) as told:
            look(fleet.read(), "web1", WEB)
        assert told.value.hint == state_hints.undefine_copies(WEB, ["h3"], True)
    fleet.hosts["h3"].domain = False
    if phase == "resized":
        with pytest.raises(errors.InstanceMoving, match="vm_state resized"):
            locate.locate(fleet.read(), "web1", WEB)
    else:
        assert locate.locate(fleet.read(), "web1", WEB) == ["h1"]


@pytest.mark.follows("restore_backup_of_record")
def test_the_owner_in_a_move_that_lost_its_record_gets_it_from_a_backup_and_no_copy_is_undefined(fleet):
    """Its guest has what was written last; the other side of the move has what was there before."""
    assert fleet.run() is None
    left = fleet.hosts["h1"].record().replace(role="OUT", phase="keep", op="ab" * 16, generation=[1, 0])
    record_lost(fleet, "h1")
    fleet.hosts["h2"].store.restore(in_a_move(left))
    with pytest.raises(errors.InstanceMoving, match="h1 has its guest and no record") as told:
        locate.locate_to_take_back(fleet.read(), "web1", WEB)
    assert told.value.hint == state_hints.restore_backup_of_record(WEB)


@pytest.mark.follows("mount_state_directory")
def test_no_guest_is_undefined_of_which_a_directory_that_does_not_count_may_have_the_record(fleet):
    """As if the host had no record of it, while an older copy answers."""
    assert fleet.run(prefer=("h2",)) is None
    plant(fleet.hosts["h1"].store, fleet.hosts["h2"].record().replace(generation=[1, 0]))
    unmounted(fleet, "h2")
    fleet.hosts["h2"].record = lambda: None
    with pytest.raises(errors.DomainWithoutRecord) as told:
        locate.locate(fleet.read(), "web1", WEB)
    assert told.value.hint == state_hints.mount_state_directory("the state directory of h2")
    del fleet.hosts["h2"].record
    state = fleet.hosts["h2"].store.state_dir
    os.rmdir(state)
    os.rename(state + ".away", state)
    with pytest.raises(errors.DuplicateInstance):
        locate.locate(fleet.read(), "web1", WEB)


@pytest.mark.follows("restore_record", "older_or_later", "find_the_right_copy")
def test_the_last_owner_that_lost_its_record_gets_it_beside_an_older_copy_and_a_person_chooses(fleet):
    """To undefine its guest instead, the newest, would leave nothing that runs and nothing that may."""
    assert fleet.run() is None
    fleet.hosts["h1"].runs = False
    fleet.silence("h1")
    assert fleet.run(prefer=("h2",), lost=["h1"]) is None
    fleet.silence()
    record_lost(fleet, "h2")
    with pytest.raises(errors.DomainWithoutRecord) as told:
        locate.locate(fleet.read(), "web1", WEB)
    assert told.value.hint == state_hints.restore_record("web1", "h2")
    with pytest.raises(errors.DuplicateInstance) as told:
        fleet.recover_record()
    assert told.value.hint == fleet_hints.older_or_later("web1", WEB, ["h1"], [], "h2")
    assert fleet.recover_record(on="h2") == ["h2"]
    with pytest.raises(errors.DuplicateInstance) as told:
        locate.locate(fleet.read(), "web1", WEB)
    assert told.value.hint == copy_hints.find_the_right_copy("web1", ["h1", "h2"])
    assert keep_one.choose(fleet.read(), "web1", WEB, "h2", True, ()).others == ["h1"]


@pytest.mark.follows("restore_damaged_record")
def test_a_record_from_a_backup_that_is_in_a_move_which_has_ended_since_is_no_dead_end(fleet):
    """Neither a confirm nor a revert takes it, as others have seen a later one, so it goes, and is taken back at rest."""
    assert fleet.run() is None
    home = fleet.hosts["h1"]
    plant(home.store, home.record().replace(phase="resized", vm_state="resized", op="ab" * 16))
    whereabouts.remember(fleet.hosts["h2"].store, {"hosts": {"id-h1": "h1"}, "known": {"id-h1": {WEB: [1, 9]}}})
    with pytest.raises(
        errors.InstanceMoving, match=r"on h1 is moving at generation 1.\d, but another host reports 1.9"
    ) as told:
        fleet.recover_record()
    assert told.value.hint == state_hints.restore_damaged_record(WEB, "h1")
    os.remove(os.path.join(home.store.state_dir, "instances", WEB, "record.json"))
    assert fleet.recover_record() == ["h1"]
    assert (fleet.run(), fleet.owners(), home.record().phase) == (None, ["h1"], "active")


def test_a_record_in_a_move_of_which_nobody_has_seen_a_later_one_is_the_newest_there_is_and_stays(fleet):
    """Where it would be removed, the move could neither be confirmed nor reverted."""
    assert fleet.run() is None
    home = fleet.hosts["h1"]
    plant(home.store, home.record().replace(phase="resized", vm_state="resized", op="ab" * 16))
    with pytest.raises(errors.InstanceMoving) as told:
        fleet.recover_record()
    assert told.value.hint != state_hints.restore_damaged_record(WEB, "h1")


@pytest.mark.follows("delete_without_record")
def test_a_claim_is_no_record_to_take_back_however_late_the_instance_was_seen_on_its_host(fleet):
    fleet.hosts["h1"].claim_one({"token": "t1", "after": [0, 0]})
    whereabouts.remember(fleet.hosts["h2"].store, {"hosts": {"id-h1": "h1"}, "known": {"id-h1": {WEB: [1, 9]}}})
    with pytest.raises(errors.RecordMissing) as told:
        fleet.recover_record()
    assert told.value.hint == fleet_hints.delete_without_record(WEB, "web1", "h1")
    assert fleet.delete() == ["h1"]
    assert fleet.run(prefer=("h2",)) is None and fleet.owners() == ["h2"]


@pytest.mark.follows("replaced")
def test_of_a_host_that_was_installed_anew_it_is_told_how_what_is_in_its_pool_continues(fleet):
    assert fleet.run() is None
    another_uuid(fleet, "h1")
    with pytest.raises(errors.InstanceUnknown) as told:
        locate.locate(fleet.read(), "web1", WEB)
    assert told.value.hint == fleet_hints.replaced("h1", "id-h1", [])
    fleet.hosts["h1"].runs = False
    assert (fleet.run(lost=["h1"], prefer=("h2", "h3")), fleet.owners()) == (None, ["h2"])


@pytest.mark.follows("undefine_copies")
def test_an_instance_that_is_there_gets_no_other_name_for_a_domain_that_somebody_made_with_its_uuid(fleet):
    assert fleet.run() is None
    fleet.hosts["h3"].domain = True
    seen = fleet.read()
    seen.strays[WEB][0]["managed"] = False  # as virsh define makes it of a definition without berth's mark
    with pytest.raises(errors.DomainWithoutRecord) as told:
        locate.locate(seen, "web1", WEB)
    assert told.value.hint == state_hints.undefine_copies(WEB, ["h3"], True)
    fleet.hosts["h3"].domain = False
    assert locate.locate(fleet.read(), "web1", WEB) == ["h1"]


def test_a_record_from_an_old_backup_that_is_the_newest_there_is_goes_on_by_a_persons_word(fleet):
    assert fleet.run() is None
    whereabouts.remember(fleet.hosts["h2"].store, {"hosts": {"id-h1": "h1"}, "known": {"id-h1": {WEB: [1, 9]}}})
    fleet.hosts["h1"].runs = False
    assert fleet.run() == "RecordOutdated"
    assert fleet.recover_record() == ["h1"]
    assert (fleet.run(), fleet.owners()) == (None, ["h1"])


@pytest.mark.parametrize("action", ["start", "delete", "recover_record", "move"])
def test_every_operation_looks_at_what_the_others_remember(fleet, action):
    """The record that answers is old: another host owns the instance, and is silent."""
    assert fleet.run() is None
    newer = {"hosts": {"id-h2": "h2"}, "known": {"id-h2": {WEB: [2, 0]}}}
    whereabouts.remember(fleet.hosts["h3"].store, newer)
    fleet.silence("h2")
    seen = fleet.read()
    here = {"role": "OWN", "generation": [1, 0]}
    operations = {
        "start": lambda: locate.locate(seen, "web1", WEB),
        "delete": lambda: locate.locate_to_delete(seen, "web1", WEB),
        "recover_record": lambda: locate.locate_to_take_back(seen, "web1", WEB, ["h9"]),
        "move": lambda: sides.check(seen, WEB, "web1", ("h1", here, None, sides.NOTHING)),
    }
    expected = errors.InstanceUnknown if action == "recover_record" else errors.RecordOutdated
    with pytest.raises(expected, match="h2"):
        operations[action]()


@pytest.mark.parametrize("exists", [True, False])
def test_with_a_domain_without_a_record_anywhere_no_host_builds_the_instance(fleet, exists):
    """The host that would build it sees only its own domains."""
    if exists:
        assert fleet.run() is None
    fleet.hosts["h3"].domain = True
    before = fleet.owners()
    assert (fleet.run(prefer=("h2",)), fleet.owners()) == ("DomainWithoutRecord", before)


@pytest.mark.parametrize("action", ["start", "move"])
def test_with_a_domain_without_a_record_anywhere_it_is_neither_started_nor_moved(fleet, action):
    assert fleet.run() is None
    fleet.hosts["h3"].domain = True
    seen, here = fleet.read(), {"role": "OWN", "generation": [1, 0]}
    with pytest.raises(errors.DomainWithoutRecord, match="h3 has the domain %s" % WEB):
        if action == "start":
            locate.locate(seen, "web1", WEB)
        else:
            sides.check(seen, WEB, "web1", ("h1", here, None, sides.NOTHING))
