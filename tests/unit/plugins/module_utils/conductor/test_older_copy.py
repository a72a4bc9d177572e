# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A copy of an instance is older than what hosts remember of another owner, which answers: that one lost its record, or a host lies.
A person names the copy that continues."""

from __future__ import annotations

import shutil

import pytest
from fleet_case import WEB, record_and_domain_lost, record_lost

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.conductor import errors, keep_one
from ansible_collections.berth.kvm.plugins.module_utils.model import copy_hints, fleet_hints, state_hints


def remembers(fleet, generation, owner="h2", by="h3"):
    """A host says that another one had it later."""
    noted = {"hosts": {"id-" + owner: owner}, "known": {"id-" + owner: {WEB: generation}}}
    whereabouts.remember(fleet.hosts[by].store, noted)


def left_guest(fleet):
    """h1 owns the instance, which runs there, and h2 has a guest of it without a record, which is off."""
    assert fleet.run() is None
    fleet.hosts["h2"].domain = True


def older_left(fleet, tmp_path, what):
    """The instance was made anew on h2, which has nothing of it any more; h1, which was given up, is back with an older guest,
    and with its record or without. Return a backup of the state directory of h2."""
    assert fleet.run() is None
    fleet.hosts["h1"].runs = False
    fleet.silence("h1")
    assert fleet.run(prefer=("h2",), lost=["h1"]) is None
    fleet.silence()
    if what == "guest":
        record_lost(fleet, "h1")
    backup = shutil.copytree(fleet.hosts["h2"].store.state_dir, str(tmp_path / "backup"))
    record_and_domain_lost(fleet, "h2")
    fleet.hosts["h2"].runs = False
    return backup


ASKED = "h2 held web1, but has a record neither of it nor of its removal, by the notes of h2, h3"


@pytest.mark.follows("continue_with_older")
@pytest.mark.parametrize("what", ["guest", "record"])
def test_an_older_copy_continues_if_a_person_says_so_where_the_later_owner_answers_and_has_nothing(
    fleet, tmp_path, what
):
    older_left(fleet, tmp_path, what)
    with pytest.raises(errors.RecordMissing, match=ASKED) as told:
        fleet.recover_record()
    assert told.value.hint == fleet_hints.continue_with_older("web1", WEB, "h2", "h1")
    assert fleet.recover_record(on="h1") == ["h1"]
    fleet.start()
    assert (fleet.run(), fleet.owners(), fleet.recover_record()) == (None, ["h1"], [])


@pytest.mark.follows("continue_with_older")
def test_so_does_one_of_the_same_generation_made_while_nobody_who_knew_the_other_answered(fleet):
    fleet.silence("h1")
    assert fleet.run(prefer=("h3",)) is None
    fleet.silence()
    remembers(fleet, fleet.hosts["h3"].store.read(WEB).generation, by="h1")
    with pytest.raises(errors.RecordMissing):
        fleet.recover_record()
    assert fleet.recover_record(on="h3") == ["h3"]
    assert (fleet.run(), fleet.owners(), fleet.recover_record(on="h3")) == (None, ["h3"], [])


@pytest.mark.follows("continue_with_older")
@pytest.mark.parametrize("what", ["guest", "record"])
def test_or_its_record_is_restored_from_a_backup_and_the_older_copy_does_not_count(fleet, tmp_path, what):
    backup = older_left(fleet, tmp_path, what)
    state = fleet.hosts["h2"].store.state_dir
    shutil.rmtree(state)
    shutil.copytree(backup, state)
    with pytest.raises((errors.DuplicateInstance, errors.DomainWithoutRecord)) as told:
        fleet.start()
    assert (
        told.value.hint
        == {
            "guest": state_hints.undefine_copies(WEB, ["h1"], True),
            "record": copy_hints.find_the_right_copy("web1", ["h1", "h2"]),
        }[what]
    )


@pytest.mark.parametrize("on", ["h2", "h3"])
@pytest.mark.parametrize("what", ["guest", "record"])
def test_the_word_of_a_person_is_about_the_copy_on_that_host_alone(fleet, tmp_path, what, on):
    older_left(fleet, tmp_path, what)
    with pytest.raises(errors.RecordMissing, match=ASKED):
        fleet.recover_record(on=on)


@pytest.mark.parametrize("what", ["guest", "record"])
@pytest.mark.parametrize("silent", ["h2", "h3"])
def test_that_word_passes_no_host_that_is_silent(fleet, tmp_path, what, silent):
    older_left(fleet, tmp_path, what)
    fleet.silence(silent)
    with pytest.raises(errors.InstanceUnknown):
        fleet.recover_record(on="h1")


@pytest.mark.parametrize("what, code", [("guest", errors.InstanceUnknown), ("record", errors.RecordOutdated)])
def test_nor_one_that_had_it_before_the_owner_that_has_nothing(fleet, tmp_path, what, code):
    """If that later owner is a lie, the instance is there."""
    older_left(fleet, tmp_path, what)
    remembers(fleet, [9, 0], "h9")
    whereabouts.remember(fleet.hosts["h2"].store, {"hosts": {"id-h2": "h2"}, "known": {"id-h2": {WEB: [12, 0]}}})
    with pytest.raises(code, match="h9, which is not in this inventory"):
        fleet.recover_record(on="h1")
    assert fleet.recover_record(on="h1", lost=["h9"]) == ["h1"]


def test_no_person_is_asked_of_an_owner_that_had_it_before_the_record_that_answers(fleet):
    assert fleet.run() is None
    fleet.hosts["h1"].take_back([4, 0])
    remembers(fleet, [3, 0])
    assert fleet.recover_record() == []


@pytest.mark.follows("older_or_later")
@pytest.mark.parametrize("runs", [True, False])
def test_one_host_that_lies_of_a_later_owner_gives_no_record_to_an_old_guest(fleet, runs):
    """With that record, while the host of the older one is silent, the old guest would be started."""
    left_guest(fleet)
    fleet.hosts["h1"].runs = runs
    remembers(fleet, [9, 0])
    running, is_on = (["h1"], "runs") if runs else ([], "is")
    with pytest.raises(errors.DuplicateInstance, match="web1 %s on h1, and h2.* by the notes of h3" % is_on) as told:
        fleet.recover_record()
    assert told.value.hint == fleet_hints.older_or_later("web1", WEB, ["h1"], running, "h2")


@pytest.mark.follows("older_or_later", "undefine_copies")
@pytest.mark.parametrize("runs", [True, False])
def test_the_older_record_counts_again_if_a_person_says_so(fleet, runs):
    left_guest(fleet)
    fleet.hosts["h1"].runs = runs
    remembers(fleet, [9, 0])
    assert fleet.recover_record(on="h1") == ["h1"]
    with pytest.raises(errors.DomainWithoutRecord) as told:
        fleet.start()
    assert told.value.hint == state_hints.undefine_copies(WEB, ["h2"], True)
    fleet.hosts["h2"].domain = False  # virsh undefine
    fleet.start()
    assert (fleet.run(), fleet.owners()) == (None, ["h1"])


@pytest.mark.follows("older_or_later")
def test_the_later_copy_gets_its_record_if_a_person_says_so_and_the_older_is_off(fleet):
    left_guest(fleet)
    remembers(fleet, [9, 0])
    with pytest.raises(errors.DuplicateInstance):
        fleet.recover_record(on="h2")
    fleet.hosts["h1"].runs = False  # virsh shutdown
    assert fleet.recover_record(on="h2") == ["h2"]
    assert keep_one.choose(fleet.read(), "web1", WEB, "h2", False, ()).others == ["h1"]
