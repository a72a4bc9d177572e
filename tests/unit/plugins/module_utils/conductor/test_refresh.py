# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts are read into the registry, each part of them by a run of its own, and an older word never replaces a newer one."""

from __future__ import annotations

import pytest
from procedure_case import play
from procedure_case import run as to_the_end
from registry_case import Site

from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Transact
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import enrol, hosts, keys
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry.transactions import RegistryClosed


@pytest.fixture
def site(tmp_path, monkeypatch):
    site = Site(tmp_path, monkeypatch)
    assert site.playbook("create") == {}
    site.use()
    return site


def known(site, host):
    uuid = site.host_uuid(host)
    key = keys.facts(uuid)
    return site.document(keys.host(uuid)), keys.unpacked_facts({key: site.engine.keys[key]})[key].document


def test_only_the_hosts_of_the_run_are_asked_and_written(site, monkeypatch):
    before = {host: known(site, host) for host in site.machines}
    monkeypatch.setattr(enrol, "AT_A_TIME", 1)
    done = site.refresh(hosts=["kvm1", "kvm2"])
    assert (done.written, done.newer, done.failed) == (["kvm1", "kvm2"], [], {})
    now = {host: known(site, host) for host in site.machines}
    assert now["kvm3"] == before["kvm3"]
    for host in ("kvm1", "kvm2"):
        assert now[host][0]["generation"] > before[host][0]["generation"]
        assert now[host][0]["read_at"] > before[host][0]["read_at"]


def test_of_two_runs_that_read_a_host_the_later_word_stays_whichever_is_written_first(site):
    going = site.changing(enrol.refresh, hosts=["kvm1"])
    for _step in range(2):  # it has read the registry, and the host
        next(going)
    site.refresh(hosts=["kvm1"])
    later = known(site, "kvm1")
    assert to_the_end(going).newer == ["kvm1"]
    assert known(site, "kvm1") == later


def test_of_two_words_with_the_same_counts_the_later_reading_stays(site):
    document = site.machines["kvm1"].facts([])["document"]

    def written(read_at):
        return to_the_end(play(hosts.report("kvm1", document, read_at), None, engine=site.engine))

    assert written(1000.0) and not written(999.0) and not written(1000.0) and written(1001.0)


def test_a_host_that_is_silent_or_belongs_elsewhere_is_told_of_and_the_others_are_read(site):
    site.machines["kvm1"].up = False
    site.machines["kvm2"].rescan((), {"registry": None})
    before = known(site, "kvm2")
    done = site.refresh()
    assert done.written == ["kvm3"] and set(done.failed) == {"kvm1", "kvm2"}
    assert "use_registry" in done.failed["kvm2"] and known(site, "kvm2") == before


def test_a_machine_that_was_installed_anew_and_counts_from_the_start_is_believed_once_it_belongs_to_the_registry(site):
    uuid = site.host_uuid("kvm1")
    host, _facts = known(site, "kvm1")
    site.engine.transact(Transact(writes=(keys.written(keys.host(uuid), {**host, "serial": 10**6}),)))
    site.machines["kvm1"].rescan((), {"registry": None})
    site.use()
    assert known(site, "kvm1")[0]["serial"] < 10**6
    assert site.refresh(hosts=["kvm1"]).written == ["kvm1"]


def test_what_is_reserved_on_a_host_stays_until_it_shows_it(site):
    key = keys.host(site.host_uuid("kvm1"))
    new = {"generation": [1, 0], "uuid": "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"}
    entry = {**site.document(key), "reserved": {new["uuid"]: new}}
    site.engine.transact(hosts_write(key, entry))
    site.refresh()
    assert site.document(key)["reserved"] == {new["uuid"]: new}


def hosts_write(key, document):
    return Transact(writes=(keys.written(key, document),))


@pytest.mark.parametrize(
    "document", [{}, {"instances": None}, {"instances": [7]}, {"instances": [], "num_instances": "x"}]
)
def test_what_a_host_says_wrongly_is_left_to_the_check_of_its_reply(site, document):
    """One host does not end a run that asks others, too."""
    host, facts = known(site, "kvm1")
    seen = {"kvm1": hosts.Seen(site.host_uuid("kvm1"), {**host, "reserved": {"u": {"vcpus": 1}}}, facts)}
    assert hosts.reports(seen, ["kvm1"], {"kvm1": {"document": document}})["kvm1"]["document"] == document


@pytest.mark.parametrize("first", ["00000000", "ffffffff"])
def test_of_two_machines_of_one_name_the_one_that_was_read_last_counts(site, first):
    """One was lost, and another one took its place."""
    new = {**site.machines["kvm1"].facts([])["document"], "uuid": first + "-3c6e-5d59-9d0b-3a1c9d7f1e2a"}
    to_the_end(play(hosts.report("kvm1", new, 1000.0, still=True), None, engine=site.engine))
    seen = to_the_end(play(hosts.hosts(), None, engine=site.engine))
    assert seen["kvm1"].uuid == new["uuid"]


def test_in_check_mode_nothing_is_written(site):
    before = dict(site.engine.keys)
    assert site.refresh(dry=True).written == ["kvm1", "kvm2", "kvm3"]
    assert site.engine.keys == before


def test_an_empty_registry_is_not_filled_by_it(site):
    site.engine.keys.clear()
    with pytest.raises(RegistryClosed):
        site.refresh()
    assert site.engine.keys == {}
