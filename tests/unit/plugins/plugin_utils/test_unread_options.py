# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An option of another playbook does nothing, and that is said."""

from __future__ import annotations

import pytest
from ansible import context

from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import UnknownVariable
from ansible_collections.berth.kvm.plugins.plugin_utils import unread_options
from ansible_collections.berth.kvm.plugins.plugin_utils.variables import RUN


def told(monkeypatch, playbooks, options):
    """What is said of -e in a run of ``playbooks``."""
    said = []
    monkeypatch.setattr(context, "CLIARGS", {"args": tuple(playbooks)})
    monkeypatch.setattr(unread_options, "warn", said.append)
    unread_options.check_unread(dict.fromkeys(options, "h1"))
    return said


@pytest.mark.parametrize(
    "playbook, option, readers",
    [
        ("doctor", "berth_junit", "berth.kvm.assert"),
        ("drain", "berth_max_moves", "berth.kvm.plan"),
        ("recover", "berth_new_name", "berth.kvm.clone, berth.kvm.rename"),
    ],
)
def test_an_option_of_other_playbooks_is_told_with_their_names(monkeypatch, playbook, option, readers):
    said = "-e: berth.kvm.%s does not read %s, an option of %s" % (playbook, option, readers)
    assert told(monkeypatch, ["berth.kvm." + playbook], [option]) == [said]


@pytest.mark.parametrize("playbook", sorted(path.stem for path in unread_options.PLAYBOOKS.glob("*.yml")))
def test_a_playbook_is_not_told_of_what_its_header_or_that_of_every_run_explains(monkeypatch, playbook):
    own = unread_options.EXPLAINED.findall((unread_options.PLAYBOOKS / (playbook + ".yml")).read_text("utf-8"))
    assert told(monkeypatch, ["berth.kvm." + playbook], [*own, "berth_report", "berth_lost_hosts"]) == []


def test_the_name_of_a_playbook_before_1_0_reads_what_the_new_one_does(monkeypatch):
    assert told(monkeypatch, ["berth.kvm.keep_one"], ["berth_keep_on"]) == []
    assert told(monkeypatch, ["berth.kvm.restore_record"], ["berth_keep_on"]) != []


@pytest.mark.parametrize(
    "playbooks", [["site.yml"], ["berth.kvm.create", "berth.kvm.doctor"], ["berth.kvm.nothing"], []]
)
def test_of_playbooks_of_somebodys_own_and_of_several_nothing_is_said(monkeypatch, playbooks):
    assert told(monkeypatch, playbooks, list(RUN)) == []


@pytest.mark.follows("leave_host_out")
@pytest.mark.parametrize(
    "playbook, option, says",
    [
        (
            "start",
            "berth_target_host",
            "an option of berth.kvm.create, berth.kvm.migrate, others that move. Leave it out",
        ),
        ("migrate", "berth_kvm_host", "an option of berth.kvm.drain"),
        ("prepare_hosts", "berth_kvm_host", "--limit selects KVM hosts here"),
    ],
)
def test_a_host_that_a_run_which_changes_something_would_not_heed_ends_it(monkeypatch, playbook, option, says):
    with pytest.raises(UnknownVariable, match="berth.kvm.%s does not read %s" % (playbook, option)) as refused:
        told(monkeypatch, ["berth.kvm." + playbook], [option])
    assert says in str(refused.value)


@pytest.mark.parametrize("playbook, option", [("migrate", "berth_target_host"), ("drain", "berth_kvm_host")])
def test_a_host_that_a_run_heeds_is_not_told(monkeypatch, playbook, option):
    assert told(monkeypatch, ["berth.kvm." + playbook], [option]) == []


def test_a_host_that_a_run_only_reads_without_is_told_and_an_empty_answer_ends_none(monkeypatch):
    assert told(monkeypatch, ["berth.kvm.doctor"], ["berth_kvm_host"]) != []
    monkeypatch.setattr(context, "CLIARGS", {"args": ("berth.kvm.start",)})
    unread_options.check_unread({"berth_target_host": ""})  # warns alone


@pytest.mark.parametrize(
    "playbook, option, readers",
    [
        (
            "confirm_due",
            "berth_confirm_window",
            "berth.kvm.cold_migrate, berth.kvm.prep_resize, berth.kvm.resize, berth.kvm.migrate",
        ),
        ("show", "berth_max_pause", "berth.kvm.live_migrate, berth.kvm.migrate"),
        ("resize", "berth_migration_tls", "berth.kvm.live_migrate, berth.kvm.migrate"),
        ("confirm", "berth_shutdown_timeout", "berth.kvm.apply_plan"),
    ],
)
def test_an_option_of_a_move_is_told_where_no_move_has_it(monkeypatch, playbook, option, readers):
    (said,) = told(monkeypatch, ["berth.kvm." + playbook], [option])
    assert said.startswith("-e: berth.kvm.%s does not read %s, an option of %s" % (playbook, option, readers))


@pytest.mark.parametrize(
    "playbook, option",
    [
        ("resize", "berth_confirm_window"),
        ("migrate", "berth_max_pause"),
        ("move", "berth_bandwidth"),
        ("undrain", "berth_migration_tls"),
        ("delete", "berth_bandwidth"),
        ("stop", "berth_shutdown_timeout"),
    ],
)
def test_an_option_of_a_move_is_not_told_where_a_move_has_it(monkeypatch, playbook, option):
    assert told(monkeypatch, ["berth.kvm." + playbook], [option]) == []


@pytest.mark.parametrize(
    "playbook, word, options",
    [
        ("reboot", "type", ["berth_reboot"]),
        ("migrate", "live", ["berth_migration"]),
        ("lock", "reason", ["berth_lock_reason"]),
        ("show", "type", []),
        ("drain", "hosts", []),
    ],
)
def test_a_bare_word_may_stand_for_an_option_of_the_playbook(monkeypatch, playbook, word, options):
    monkeypatch.setattr(context, "CLIARGS", {"args": ["berth.kvm." + playbook]})
    assert unread_options.meant_by(word) == options


def test_in_a_playbook_of_somebodys_own_a_bare_word_is_his(monkeypatch):
    monkeypatch.setattr(context, "CLIARGS", {"args": ["site.yml"]})
    assert unread_options.meant_by("type") == []


def test_an_option_of_a_plan_is_unread_where_nothing_carries_one_out(monkeypatch):
    said = "-e: berth.kvm.events does not read berth_until, an option of berth.kvm.apply_plan, berth.kvm.drain, berth.kvm.return"
    assert told(monkeypatch, ["berth.kvm.events"], ["berth_until"]) == [said]
    assert told(monkeypatch, ["berth.kvm.drain"], ["berth_until"]) == []


@pytest.mark.follows("select_where")
def test_who_would_select_what_show_shows_by_its_flavor_is_told_how(monkeypatch):
    (said,) = told(monkeypatch, ["berth.kvm.list"], ["berth_flavor"])
    assert said.endswith("selected with -e \"berth_where=flavor.name=='h1'\"")
    assert told(monkeypatch, ["berth.kvm.create"], ["berth_flavor"]) == []
    assert told(monkeypatch, ["berth.kvm.show"], ["berth_flavor", "berth_name"]) == []
