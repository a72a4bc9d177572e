# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A few of the long histories of histories.py, and that one which breaks a rule is found and shortened."""

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import histories  # noqa: E402
import history_engine  # noqa: E402
import history_hints  # noqa: E402
import history_names  # noqa: E402
import history_plans  # noqa: E402
import history_steps  # noqa: E402
from fibers import exchange_unlocked  # noqa: E402
from history_steps import Asked, Step  # noqa: E402
from history_world import World  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.compute.backup import backup_chain  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.conductor import notes, renaming  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, state_hints  # noqa: E402

SEEDS = range(6)
HOSTS, NAMES = 3, ["web1"]
FOUND = ("old1",)


def run(playbook, names=tuple(NAMES), dice=1, **more):
    return Step("run", (Asked(playbook, names, dice, **more),))


@pytest.fixture(params=[False, True], ids=["hosts alone", "engine"])
def either(request, monkeypatch):
    """What spans hosts is decided by the hosts alone, or over a registry in an engine."""
    monkeypatch.setattr(histories, "ON_ENGINE", request.param)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_long_history_keeps_the_rules_and_ends_well(seed):
    assert histories.one(seed) == (seed, None)


def test_the_same_seed_is_the_same_history():
    assert history_steps.history(7) == history_steps.history(7) != history_steps.history(8)


# Each host in turn is thought to be lost and comes back while another one is silent, which may have the instance.
LOST_AND_BACK = [
    step
    for host in range(HOSTS)
    for step in (
        run("create"),
        Step("switch_off", host=host),
        run("create", lost="off"),
        Step("switch_on"),
        *[
            step
            for other in range(HOSTS)
            if other != host
            for step in (Step("silent", host=other, number=1), run("start"))
        ],
    )
]


def test_a_host_that_was_given_up_and_is_back_starts_no_second_guest():
    assert histories.play(HOSTS, NAMES, LOST_AND_BACK) is None


@pytest.mark.parametrize("lost", ["restore_state", "remove_record"])
@pytest.mark.parametrize("host", range(HOSTS))
def test_a_destination_that_lost_its_record_of_a_resize_gets_one_without_a_backup(monkeypatch, host, lost):
    """What was written there since the move stays, though no backup has the record."""
    monkeypatch.setattr(history_steps, "is_beyond_help", lambda *_error: False)
    before = [run("create"), *(Step("keep_state", host=each) for each in range(HOSTS)), run("resize")]
    assert histories.play(HOSTS, NAMES, [*before, Step(lost, host=host, name="web1")]) is None


@pytest.mark.parametrize("host", range(HOSTS))
def test_a_record_from_a_backup_of_before_the_end_of_a_move_has_a_way_out(monkeypatch, host):
    """It is in a move, which others have seen to end: what the hint says is followed."""
    monkeypatch.setattr(history_steps, "is_beyond_help", lambda *_error: False)
    kept = [run("create"), run("resize", killed=(6, 0)), *(Step("keep_state", host=each) for each in range(HOSTS))]
    ended = [run("resize"), run("confirm_resize"), Step("restore_state", host=host, name="web1"), run("confirm_resize")]
    assert histories.play(HOSTS, NAMES, [*kept, *ended]) is None


def test_a_resize_is_reverted_though_its_destination_is_a_machine_of_before_and_others_remember_more():
    """The create of a clone has told the source that the destination had it later, and the third host is lost."""
    names = tuple("web%d" % number for number in range(1, 7))
    resized = [run("create", names, 3098990846), Step("die", host=2), Step("keep_whole", host=1)]
    told = [run("resize", ("web6",), 3443818037), run("clone", ("web5",), 982526257, killed=(13, 9))]
    assert histories.play(HOSTS, names, [*resized, *told, Step("restore_whole", host=1)]) is None


KVM, OTHER, WEB = "kvm1", "kvm2", "dcab68f4-1dfd-5daf-9769-26c0ec133be0"


@pytest.mark.parametrize(
    "pattern, hint",
    [
        (history_hints.UNDEFINE, state_hints.undefine_copies(WEB, [KVM], True)),
        (history_hints.SHUT_DOWN, fleet_hints.older_or_later("web1", WEB, [OTHER], [OTHER], KVM)),
        (history_hints.IF_IT_IS_THAT, fleet_hints.older_or_later("web1", WEB, [OTHER], [OTHER], KVM)),
        (history_hints.RECORD_OUT, state_hints.forget_old_move(WEB, KVM, OTHER)),
        (history_hints.BEHIND, state_hints.restore_damaged_record(WEB, KVM)),
        (history_hints.WHICH_RECORD, fleet_hints.which_record("web1", WEB, [KVM, OTHER])),
        (history_hints.SUPERSEDED, fleet_hints.superseded_copy(KVM, OTHER)),
    ],
)
def test_what_a_hint_says_is_followed(pattern, hint):
    """A word that changes would make a dead end of a way out, or hide one."""
    assert pattern.search(hint)


def rivals(seed):
    """Creates of one instance, two at once, of which each misses another host."""
    dice = random.Random(seed)
    return [step for _time in range(5) for step in history_steps.rivals(dice, *NAMES, HOSTS)]


@pytest.mark.parametrize("seed", range(10))
def test_two_controllers_that_miss_different_hosts_make_one_guest(seed):
    assert histories.play(HOSTS, NAMES, rivals(seed)) is None


@pytest.mark.parametrize("seed", range(3))
def test_histories_over_a_registry_in_an_engine_end_well(monkeypatch, seed):
    monkeypatch.setattr(histories, "ON_ENGINE", True)
    assert histories.play(*histories.history(seed)) is None


LATER = ("clone", "rename", "adopt", "leave", "make_guest")


@pytest.mark.parametrize("seed", [14, 25, 29, 42, 62, 134])
def test_histories_over_an_engine_that_have_broken_a_rule_end_well(monkeypatch, seed):
    """Among them: hosts that were given up as lost and are back, and the registry away while a person follows a hint."""
    monkeypatch.setattr(histories, "ON_ENGINE", True)
    for weights in (history_engine.PLAYBOOKS, history_engine.EVENTS):
        for each in LATER:  # these seeds are of before they were played
            monkeypatch.delitem(weights, each, raising=False)
    assert histories.play(*histories.history(seed)) is None


@pytest.mark.usefixtures("either")
def test_a_guest_that_is_adopted_on_a_full_host_takes_no_more_than_before():
    names = tuple("web%d" % number for number in range(1, 9))  # as many as fit on two hosts
    found = [
        step for host in range(2) for step in (Step("make_guest", host=host), run("adopt", FOUND), run("leave", FOUND))
    ]
    assert histories.play(2, names, [run("create", names), *found]) is None


@pytest.mark.parametrize("calls", [5, 6])
def test_what_was_shelved_and_deleted_is_made_anew_where_no_registry_heard_of_the_delete(monkeypatch, calls):
    monkeypatch.setattr(histories, "ON_ENGINE", True)
    gone = [run("create"), run("audit"), run("shelve"), run("delete", killed=(calls, 100))]
    assert histories.play(HOSTS, NAMES, gone) is None


def test_a_quota_that_a_run_has_changed_and_changed_back_beside_an_audit_stays(monkeypatch):
    monkeypatch.setattr(histories, "ON_ENGINE", True)
    names = tuple("web%d" % number for number in range(1, 7))
    audit = Asked("audit", ("web2",), 1841521381, lost="off", confirmed=True, cut=2)
    clone = Asked("clone", ("web1",), 2844404114, host=2, lost="dead", confirmed=True, same_host=True)
    beside = Step("run", (audit, clone), number=1145676107)
    assert histories.play(HOSTS, names, [run("create", names, 4175471192), beside]) is None


def test_an_audit_gives_no_address_to_an_instance_that_a_run_moves_meanwhile(monkeypatch):
    """The registry does not know that of a guest that was adopted: its entry, which the run has changed, would not tell of it."""
    monkeypatch.setattr(histories, "ON_ENGINE", True)
    resize = Asked("resize", FOUND, 1711559925, host=4, lost="dead", state="stopped", grown=("db",))
    audit = Asked("audit", ("web4",), 3535954736, host=3, lost="dead", confirmed=True, same_host=True)
    steps = [
        Step("make_guest", host=3),
        run("adopt", FOUND, 3376024626),
        Step("run", (resize, audit), number=1806729210),
    ]
    assert histories.play(5, ["web1", "web2", "web3", "web4"], steps) is None


BACKUP, RESTORED = Step("engine_backup"), Step("engine_restored")


@pytest.mark.parametrize("host", range(HOSTS))
@pytest.mark.parametrize(
    "steps",
    [
        lambda host: [
            run("refresh", host=host),
            BACKUP,
            Step("die", host=host),
            run("create", lost="dead", confirmed=True),
            RESTORED,
        ],
        lambda host: [Step("switch_off", host=host), run("create", lost="off"), BACKUP, run("delete"), RESTORED],
    ],
    ids=["it died after the backup and its instance is elsewhere", "its instance was deleted elsewhere"],
)
def test_what_a_lost_host_had_counts_no_more_after_an_older_registry_was_restored(monkeypatch, steps, host):
    monkeypatch.setattr(histories, "ON_ENGINE", True)
    assert histories.play(HOSTS, NAMES, [run("create"), *steps(host)]) is None


@pytest.mark.parametrize(
    "silent, off", [*itertools.permutations(range(HOSTS), 2), *((host, None) for host in range(HOSTS))]
)
def test_an_instance_that_has_moved_to_a_silent_host_is_not_made_again_where_no_registry_heard_of_the_move(
    monkeypatch, silent, off
):
    """The run was killed when both hosts had done their part. ``off``: given up as lost, as if it were the source."""
    monkeypatch.setattr(histories, "ON_ENGINE", True)
    gone = [Step("silent", host=silent, number=2), *([] if off is None else [Step("switch_off", host=off)])]
    for calls in (18, 22):
        moved = [run("create"), run("live_migrate", killed=(calls, 0))]
        assert histories.play(HOSTS, NAMES, [*moved, *gone, run("create", lost="off", confirmed=True)]) is None


def test_two_guests_are_found_where_hosts_exchange_what_they_know_without_their_lock(monkeypatch):
    exchange_unlocked(monkeypatch)
    found = (histories.play(HOSTS, NAMES, rivals(seed)) for seed in range(200))
    assert next(filter(None, found)).startswith("H1")


def test_a_broken_rule_is_found_and_its_history_is_shortened(monkeypatch):
    """Without what other hosts remember, the old record would count."""
    from ansible_collections.berth.kvm.plugins.module_utils.conductor import locate

    monkeypatch.setattr(locate.notes, "check_owner", lambda *_: None)
    monkeypatch.setattr(notes, "check_owner", lambda *_: None)
    violation = histories.play(HOSTS, NAMES, LOST_AND_BACK)
    assert violation and violation.startswith("H1")
    steps, again = histories.shorten(HOSTS, NAMES, LOST_AND_BACK, violation)
    assert again.startswith("H1") and len(steps) <= 6


CALLS = HOSTS + 1  # to the hosts until one does what it was asked
# Each playbook of a snapshot is killed at another change on its host, and run again; the instance moves between them.
SNAPSHOTS = [
    step
    for number in range(8)
    for step in (
        run("snapshot", killed=(CALLS, 2 * number)),
        run("snapshot"),
        run("cold_migrate"),
        run("confirm_resize"),
        run("start"),
        run("revert_snapshot", killed=(CALLS, 2 * number)),
        run("revert_snapshot"),
        run("start"),
        run("delete_snapshot", killed=(CALLS, 2 * number)),
        run("delete_snapshot"),
    )
]


def test_a_disk_goes_back_to_its_snapshot_wherever_it_is_and_whoever_is_killed():
    assert histories.play(HOSTS, NAMES, [run("create"), *SNAPSHOTS]) is None


# The same with the memory of the guest, which is in the way of a move to another host.
WITH_MEMORY = [
    step
    for number in range(20)
    for step in (
        run("snapshot_with_memory", killed=(CALLS, number)),
        run("snapshot_with_memory"),
        run("cold_migrate"),
        run("revert_snapshot", killed=(CALLS, number)),
        run("revert_snapshot"),
        run("start"),
        run("delete_snapshot", killed=(CALLS, number)),
        run("delete_snapshot"),
    )
]


def test_memory_comes_back_beside_the_disks_of_its_moment_whoever_is_killed():
    assert histories.play(HOSTS, NAMES, [run("create"), *WITH_MEMORY]) is None


MOUNTED, KEPT = 8, 5  # dice by which an increment goes there, and two backups are kept
# Each playbook of a backup is killed at another change on a host, and run again, in a directory and on a backup host.
BACKUPS = [
    step
    for number in range(12)
    for step in (
        run("backup", dice=MOUNTED, killed=(HOSTS + 2 + number % 4, number)),
        run("backup", dice=MOUNTED),
        run("backup", dice=KEPT, killed=(HOSTS + 2 + number % 4, number)),
        run("backup", dice=KEPT),
        run("backup", dice=MOUNTED),
        run("restore", dice=(MOUNTED, KEPT)[number % 2], killed=(CALLS + HOSTS + number % 4, number)),
        run("restore", dice=(MOUNTED, KEPT)[number % 2]),
        run("image_from_instance", killed=(CALLS, number)),
        run("image_from_instance"),
        run("cold_migrate"),
        run("confirm_resize"),
        run("start"),
    )
]


def test_a_backup_is_whole_or_none_and_comes_back_whoever_is_killed():
    assert histories.play(HOSTS, NAMES, [run("create"), *BACKUPS]) is None


def test_a_backup_that_goes_with_one_on_which_another_stands_is_found(monkeypatch):
    def only_the_last(known, keep, keep_days, made):
        return [each.id for each in known if keep and each.id != made]

    monkeypatch.setattr(backup_chain, "removable", only_the_last)
    assert histories.play(HOSTS, NAMES, [run("create"), *BACKUPS]).startswith("H7 the newest whole backup")


@pytest.mark.usefixtures("either")
def test_a_clone_that_was_killed_at_any_change_is_made_by_the_next_run():
    clones = [
        step
        for number in range(12)
        for step in (
            run("clone", ("web2",), number, killed=(CALLS + 1 + number % 3, number)),
            run("clone", ("web2",), number),
        )
    ]
    assert histories.play(HOSTS, ["web1", "web2"], [run("create"), *clones]) is None


# Each is killed at another change on a host, and run again, with the backup in a directory and on a backup host.
SHELVED = [
    step
    for number in range(5)
    for where, calls in ((MOUNTED, 5), (KEPT, 10))
    for step in (
        run("shelve", dice=where, killed=(CALLS + 2 * number % calls, number)),
        run("shelve", dice=where),
        run("unshelve", killed=(CALLS + number, 2 * number)),
        run("unshelve"),
    )
]


def test_what_a_shelved_guest_wrote_is_in_its_backup_or_on_its_host_whoever_is_killed():
    assert histories.play(HOSTS, NAMES, [run("create"), *SHELVED]) is None


FULL = tuple(
    "web%d" % number for number in range(2, 6)
)  # they have the room of its host while the first one is shelved


@pytest.mark.parametrize("number", range(14))
def test_what_is_unshelved_on_another_host_has_its_disks_there_whoever_is_killed(number):
    """The same dice choose the same host for all of them, as long as that has room."""
    steps = [
        run("create", ("web1",)),
        run("shelve", ("web1",), dice=(MOUNTED, KEPT)[number % 2]),
        *(run("create", (name,)) for name in FULL),
        run("unshelve", ("web1",), killed=(CALLS + 2 * number, number % 4)),
        run("unshelve", ("web1",)),
        run("unshelve", ("web1",)),
    ]
    assert histories.play(HOSTS, ["web1", *FULL], steps) is None


# Each is killed at another change on a host; what was refused says what to do, and the instance is known by its new name alone.
RENAMED = [
    step
    for number in range(4)
    for new in (history_names.NEW[number % 2], "web1")
    for step in (
        run("rename", new=new, killed=(2 * HOSTS + 1 + number, number)),
        run("stop"),
        Step("follow"),
        run("rename", new=new),
        run("live_migrate"),
    )
]


@pytest.mark.usefixtures("either")
def test_a_renamed_instance_is_the_one_that_it_was_whoever_is_killed():
    assert histories.play(HOSTS, NAMES, [run("create"), *RENAMED]) is None


@pytest.mark.usefixtures("either")
def test_what_no_host_has_is_not_called_as_an_instance_that_moves():
    """It is the other one that the error is about."""
    steps = [run("create"), run("cold_migrate"), run("rename", FOUND, new="web1")]
    assert histories.play(HOSTS, NAMES, steps) is None


def namesakes(seed):
    """A create of an instance and a rename of another one to its name at once, of which each misses another host."""
    dice, names = random.Random(seed), ["web1", "web2"]
    return names, [step for _time in range(5) for step in history_steps.namesakes(dice, names, HOSTS)]


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("seed", range(2))
def test_of_a_create_and_a_rename_to_its_name_one_gives_way(seed):
    assert histories.play(HOSTS, *namesakes(seed)) is None


def test_two_of_one_name_are_found_where_a_rename_does_not_look_at_the_hosts_again(monkeypatch):
    monkeypatch.setattr(renaming, "taken_since", lambda *_: None)
    found = (histories.play(HOSTS, *namesakes(seed)) for seed in range(100))
    assert next(filter(None, found)).startswith("H8")


@pytest.mark.parametrize(
    "state, calls", [("active", range(13, 51, 5)), ("stopped", range(13, 69, 6))], ids=["it runs", "it is off"]
)
def test_a_plan_whose_run_is_killed_is_carried_out_to_its_end_by_the_next_one(tmp_path, state, calls):
    """A drain of three instances. Each run is killed at another call to a host, after another change there."""
    names = ("web1", "web2", "web3", "web4")
    for number in calls:
        with pytest.MonkeyPatch.context() as patch:
            (tmp_path / str(number)).mkdir()
            player = history_steps.Player(World(tmp_path / str(number), patch, HOSTS, names))
            player.play(run("create", names, 2, state=state))
            player.play(run("apply_plan", names, 4, killed=(number, number % 4)))
            assert len(player.world.plan["waves"][0]) == 3
            ended = history_plans.goes_on(player)
            assert (player.world.plan, ended.outdated, ended.errors) == (None, "", {}), number


# What is adopted is moved, changed and left again; each is killed at another change, and run again.
ADOPTED = [
    step
    for number in range(6)
    for step in (
        Step("make_guest", host=number % HOSTS),
        run("adopt", FOUND, killed=(2 * CALLS, number)),
        run("adopt", FOUND),
        run("live_migrate", FOUND, killed=(CALLS + number, number)),
        run("live_migrate", FOUND),
        run("resize", FOUND, killed=(CALLS + number, number)),
        run("resize", FOUND),
        run("revert_resize", FOUND),
        run("backup", FOUND, dice=number),
        run("snapshot", FOUND),
        run("delete_snapshot", FOUND),
        run("stop", FOUND),
        run("leave", FOUND, killed=(CALLS, number)),
        run("leave", FOUND),
        run("adopt", FOUND),
        run("delete", FOUND),
    )
]


@pytest.mark.usefixtures("either")
def test_a_guest_that_was_adopted_keeps_its_disk_wherever_it_goes_and_whoever_is_killed():
    assert histories.play(HOSTS, NAMES, [run("create"), *ADOPTED]) is None
