# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module host_facts: what it returns, and how it fails."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
import yaml

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import facts
from ansible_collections.berth.kvm.plugins.modules import host_facts

pytest.importorskip("libvirt")


class Records:
    def sound(self):
        return ["record"]


@pytest.fixture
def run(ended, monkeypatch):
    """run(gather, check_mode, options) -> the result of main() with this in place of gather()."""

    def run(gather, check_mode=False, **options):
        monkeypatch.setattr(facts, "gather", gather)
        return ended(host_facts, check_mode, options)

    return run


def test_the_document_is_a_fact(run):
    assert run(lambda timeout, save_generation, missing: {"schema": 1})["ansible_facts"] == {
        "berth_host": {"schema": 1}
    }


@pytest.mark.parametrize("check_mode", [True, False])
def test_check_mode_writes_no_generation(run, check_mode):
    assert (
        run(lambda timeout, save_generation, missing: save_generation, check_mode)["ansible_facts"]["berth_host"]
        is not check_mode
    )


def test_a_typed_error_becomes_the_modules_failure(run):
    def gather(timeout, save_generation, missing):
        raise connection.LibvirtUnavailable("no libvirt")

    result = run(gather)
    assert (result["failed"], result["error_code"], result["retryable"]) == (True, "LibvirtUnavailable", True)


def test_the_records_come_along_where_they_are_asked_for(run, monkeypatch):
    monkeypatch.setattr(host_facts, "views", lambda: [{"uuid": "u"}])
    assert run(lambda timeout, save_generation, missing: {}, moves=True)["moves"] == [{"uuid": "u"}]


def test_records_that_libvirt_does_not_tell_in_time_are_a_typed_error(run, monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr(host_facts, "views", ended.wait)
    result = run(lambda timeout, save_generation, missing: {}, moves=True, timeout=0)
    ended.set()
    assert (result["failed"], result["error_code"]) == (True, "LibvirtTimeout")


def test_every_returned_field_is_documented_with_a_sample(tmp_path):
    document = facts.gather(10, False, "test:///default", str(tmp_path / "none"), str(tmp_path / "state"))
    documented = yaml.safe_load(host_facts.RETURN)["ansible_facts"]["contains"]["berth_host"]["contains"]
    assert {name for name, field in documented.items() if "returned" not in field} == set(document)
    assert all("sample" in field for field in documented.values())


def test_nothing_is_written_on_a_host_that_is_not_prepared(tmp_path):
    document = facts.gather(10, True, "test:///default", str(tmp_path / "none"), str(tmp_path / "state"))
    assert (document["prepared"], document["generation"]) == (False, 0)
    assert list(tmp_path.iterdir()) == []


def test_addresses_are_told_where_they_are_asked_for(run, monkeypatch):
    monkeypatch.setattr(host_facts, "Onlooker", lambda: SimpleNamespace(connection=1, store=Records()))
    monkeypatch.setattr(host_facts, "of_instances", lambda libvirt, records: {"a": records})
    monkeypatch.setattr(host_facts, "awaited", lambda libvirt, records, known: [*records, *known])
    assert "addresses" not in run(lambda timeout, save_generation, missing: {})
    told = run(lambda timeout, save_generation, missing: {}, addresses=True)
    assert (told["addresses"], told["awaited"]) == ({"a": ["record"]}, ["record", "a"])
