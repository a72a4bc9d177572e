# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What agreed with its record is not parsed again; what has changed since is always found."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from instance_case import made_with_nic
from mend_case import EDITS, MACHINE, NIC, edit, told
from recorded_libvirt import Libvirt

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import live_differences
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import by_hand, facts, settings

SPOILED = {
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    "empty": lambda file: file.write_bytes(b""),
    "of zeros": lambda file: file.write_bytes(bytes(32)),
    "missing": lambda file: file.unlink(),
    "a link": lambda file: file.rename(file.with_name("x")) and file.symlink_to("x"),
    "writable by others": lambda file: file.chmod(0o622),
    "a directory": lambda file: file.unlink() or file.mkdir(),
    "a pipe": lambda file: file.unlink() or os.mkfifo(file, 0o600),
    "too large": lambda file: os.truncate(file, 17 << 20),
}


@pytest.fixture
def web(prepared, wanted, monkeypatch):
    return made_with_nic(prepared, wanted("web1"), monkeypatch, NIC, MACHINE)


def kept(web):
    return Path(web.host.store.state_dir, by_hand.AGREED_FILE)


@pytest.fixture
def parsed(monkeypatch):
    """The definitions that were parsed for a comparison."""
    texts, parts = [], live_differences.parts
    monkeypatch.setattr(live_differences, "parts", lambda root: texts.append(root) or parts(root))
    return texts


def test_a_definition_that_agreed_with_its_record_is_not_parsed_again(web, parsed):
    assert told(web) is None and len(parsed) == 2, "the running guest and its next start"
    assert told(web) is None and len(parsed) == 2


@pytest.mark.parametrize("what", EDITS)
def test_what_somebody_changes_after_all_agreed_is_told_each_time_until_it_is_mended(web, what):
    change, says = EDITS[what]
    assert told(web) is None
    before = web.domain.xml
    change(web)
    first = told(web)
    assert first.startswith(says.partition("{own}")[0]) and told(web) == first
    web.domain.xml = before
    assert told(web) is None


def test_a_record_that_demands_something_else_than_what_agreed_is_told(web):
    assert told(web) is None
    record = web.record
    spec = {**record.spec, "flavor": {**record.spec["flavor"], "vcpus": 3}}
    web.host.store.compare_and_swap(record, record.next(spec=spec))
    assert "vcpus 1 (record: 3)" in told(web)


def test_a_version_with_other_rules_compares_again(web, parsed, monkeypatch):
    told(web)
    monkeypatch.setattr(live_differences, "RULES", "others")
    assert told(web) is None and len(parsed) == 4


@pytest.mark.parametrize("spoil", SPOILED)
def test_a_spoiled_file_is_as_good_as_none(web, parsed, spoil):
    told(web)
    SPOILED[spoil](kept(web))
    assert told(web) is None and len(parsed) == 4
    edit(web, r">1</vcpu>", ">4</vcpu>")
    assert "vcpus 4 (record: 1)" in told(web)


def test_only_what_agreed_in_the_last_facts_is_kept_and_nothing_that_differs(web):
    told(web)
    assert len(kept(web).read_bytes()) == by_hand.LENGTH
    edit(web, r">1</vcpu>", ">4</vcpu>")
    told(web)
    assert kept(web).read_bytes() == b""


@pytest.mark.parametrize("save, left", [(True, b""), (False, b"old")])
def test_facts_that_save_nothing_keep_nothing(tmp_path, save, left):
    file = tmp_path / by_hand.AGREED_FILE
    tmp_path.chmod(0o700)
    file.write_bytes(b"old")
    file.chmod(0o600)
    facts.collect(Libvirt(), settings.HostSettings(), [], str(tmp_path), save_generation=save)
    assert file.read_bytes() == left


def test_without_a_state_directory_nothing_is_kept(tmp_path):
    by_hand.keep_agreed(str(tmp_path / "none"), {by_hand.agreed_digest("", {}, ["text"])})
    assert not by_hand.read_agreed(str(tmp_path / "none")) and not list(tmp_path.iterdir())


def test_no_two_comparisons_have_one_digest():
    given = [("ab", "c"), ("a", "bc"), ("abc", None), (None, "abc"), ("abc", ""), ("", "abc"), ("c", "ab")]
    digests = [
        by_hand.agreed_digest(rules, wanted, texts) for texts in given for wanted in ({}, {"a": "b"}) for rules in "12"
    ]
    assert len(set(digests)) == len(digests)


def test_the_rules_are_named_after_their_code():
    """Otherwise a host would go on with what agreed by older rules."""
    code = Path(live_differences.__file__).read_text(encoding="utf-8")
    lines = [line for line in code.splitlines() if not line.startswith("RULES = ")]
    now = hashlib.sha256("\n".join(lines).encode("utf-8")).hexdigest()[:12]
    assert live_differences.RULES == now, 'write RULES = "%s" into live_differences.py' % now
